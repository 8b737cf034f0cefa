"""Store: what is known about each Framework, and what each part may write."""
