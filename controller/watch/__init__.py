"""Watch: the list-watches that feed the store."""
