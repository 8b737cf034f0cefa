"""Restart in place: the start barrier, its deadlines, and the decisions about the command."""
