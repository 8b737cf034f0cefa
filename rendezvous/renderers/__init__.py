"""One consumer, one file: what a training stack reads of its gang, as bytes and variables. Pure.

Each module offers ``render(view, options) -> Rendered`` and refuses, with ``RefusedError``, what
its consumer would misread. ``rendezvous.renderers.registry`` calls them.
"""
