"""Reconcile: the loop that observes, decides and executes."""
