"""Hangs and the progress of the gang, in the agent of rank 0. Pure.

The agents send ``reports`` of their processes to ``watch``, which asks ``progress`` whether the
gang stands still. ``gangprogress`` reads the same reports, for the Framework's status.
"""
