"""Tasks that leave their nodes before these are removed."""
