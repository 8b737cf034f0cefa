"""Completion of the shell, ``framework init``, and programs in running Pods (``exec``)."""
