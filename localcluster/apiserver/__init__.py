"""The local API server: a deterministic storage engine and a thin HTTP front before it.

The engine (``storage`` and its imports) does no I/O and reads only the clock that it is given, so
the simulator drives it directly. All code for sockets is in ``front`` and ``server``.

docs/architecture.md lists the folders; imports go down its list only.
"""
