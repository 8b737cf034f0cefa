"""The commands of ``framework``: a module for each, with the arguments and options it takes.

``cli.catalog`` names them. A module of this package is imported when its command is called. It
imports the modules that do the work only when the command runs, so that ``--help`` stays fast.
"""
