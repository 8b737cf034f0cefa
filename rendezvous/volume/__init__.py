"""Writes generations into the volume, and the agent for images without it."""
