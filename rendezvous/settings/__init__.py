"""What users may set: each setting once, its parser, and how it is given."""
