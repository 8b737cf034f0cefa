"""What the agent decides: pure functions of what was observed. No I/O, no clock, no log."""
