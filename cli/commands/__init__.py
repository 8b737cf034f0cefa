"""The commands of ``framework``: a module for each, with the arguments and options it takes.

``cli.catalog`` names them. A module of this package is imported when its command is called, and
imports what does the work only then, so that ``--help`` stays fast.
"""
