"""What the barrier and the rendezvous agent share: the way to the API server and small I/O.

Standard library only, Python 3.7 syntax: this package travels in the agents' zipapp into users'
images. Modules that cost start-up time (``ssl``, PyYAML) are imported where they are needed.
"""
