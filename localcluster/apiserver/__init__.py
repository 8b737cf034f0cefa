"""The local API server: a deterministic storage engine and a thin HTTP front before it.

The engine (``storage`` and the modules it imports) does no I/O and knows no clock but the one it is
given; the simulator drives it directly. Whatever touches sockets lives in the front's modules.

docs/architecture.md lists the folders; imports go down its list only.
"""
