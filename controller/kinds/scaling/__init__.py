"""The scalers of TrainingJobs in the cluster: what is read, and how their steps are executed."""
