"""The output of containers: which lines are asked for, and how they are merged and written."""
