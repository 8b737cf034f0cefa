"""``framework run``: applies Frameworks and follows them to their end."""
