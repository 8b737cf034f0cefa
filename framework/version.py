"""The version of the distribution, written here and nowhere else.

Read by the build (pyproject.toml) and by every program's ``--version``. Importing it costs nothing,
unlike asking the installed distribution's metadata.
"""

VERSION = "0.1.0"
