"""The steps of the training: what the processes report, and the watch for a gang that hangs."""
