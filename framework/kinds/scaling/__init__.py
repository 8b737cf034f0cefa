"""ScaleIn and ScaleOut of et-operator: they remove and add workers of a running TrainingJob."""
