"""The barrier: an init container that holds its Pod until the whole gang of its attempt is there.

Run as ``python -m barrier``. Reads the roster (or the Framework) through ``framework.agent``,
decides in ``decision`` (pure), leaves ``injector.sh`` and ``framework.json`` in the volume.
"""
