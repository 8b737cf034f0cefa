"""Serve: probes and metrics."""
