"""Startup, readiness and liveness probes."""
