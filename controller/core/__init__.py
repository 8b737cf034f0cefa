"""The pure core: from a Snapshot to a Decision, without a clock, I/O, randomness or logging."""
