"""TrainingJob of kai.alibabacloud.com/v1alpha1, of et-operator: a launcher and workers. Pure."""
