"""Texts for users, and the words by which users name Tasks and kinds. Pure."""
