"""The version of the distribution, for the build (pyproject.toml) and ``--version``.

A constant, because a read of the metadata of the installed distribution is slow.
"""

VERSION = "0.1.0"
