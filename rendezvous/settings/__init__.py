"""The settings of users: each setting once, its parser, and its sources."""
