"""Other kinds of jobs in the cluster: TfJob and TrainingJob, each with a Framework of its own."""
