"""Restart in place: which failures of processes start the next epoch."""
