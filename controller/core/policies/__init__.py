"""Policies: each module answers one question that the machines ask, and moves no state."""
