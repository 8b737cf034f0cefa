"""The barrier: an init container that holds its Pod until the gang of its attempt is complete.

1. ``app`` reads the settings (``config``) and creates the temporary file of ``injector.sh``.
2. ``waiting`` observes the gang through ``framework.agent`` until ``decision`` gives Pass or Fail.
3. After a Pass, ``release`` writes ``framework.json`` and ``injector.sh`` into the volume.
4. ``app`` writes the termination message and ends with the exit code.
"""
