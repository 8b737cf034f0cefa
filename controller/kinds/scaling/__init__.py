"""The scalers of TrainingJobs in the cluster: reads their objects and executes their steps."""
