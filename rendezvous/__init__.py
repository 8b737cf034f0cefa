"""Peer files and variables for training processes, kept fresh while the gang is rescaled.

Travels in the agents' zipapp into users' images: Python 3.7 syntax, standard library only.
"""
