"""The copies of objects in the history log, taken before they are replaced."""
