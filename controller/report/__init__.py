"""Report: Events and log lines."""
