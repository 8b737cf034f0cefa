"""What is particular to a kind: its defaults, its validation, what may change in it."""
