"""Nodes that a Task avoids because it failed on them."""
