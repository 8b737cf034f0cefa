"""Library of the agents: API server access, sources of a gang, files, exit codes.

Standard library only, Python 3.7 syntax: the zipapp of the agents contains this package and runs in
users' images. Modules with a long import time (``ssl``, PyYAML) are imported where they are used.
"""
