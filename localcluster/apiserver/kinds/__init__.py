"""Rules of one kind: defaults, validation, and which fields may change."""
