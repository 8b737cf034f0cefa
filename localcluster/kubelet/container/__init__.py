"""One container of a Pod: what to run, its process tree, its restarts and its rights."""
