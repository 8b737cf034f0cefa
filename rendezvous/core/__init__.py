"""The decisions of the agent: pure functions of its observations. No I/O, no clock, no log."""
