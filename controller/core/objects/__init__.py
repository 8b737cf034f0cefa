"""The objects of an attempt: their existence, their owners and creators, and their bodies."""
