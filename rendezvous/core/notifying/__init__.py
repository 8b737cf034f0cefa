"""The notifications of processes: which are due, their contents, and how they are written. Pure."""
