"""Tasks that leave before their nodes go."""
