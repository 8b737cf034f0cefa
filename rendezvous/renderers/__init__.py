"""Renderers: a module for each training stack, with the files and variables that it reads. Pure.

Each module has ``render(view, options) -> Rendered``, which raises ``RefusedError`` for a gang that
its consumer would misread. ``rendezvous.renderers.registry`` calls them.
"""
