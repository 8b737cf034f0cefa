"""Hangs and the progress of the gang, in the agent of rank 0. Pure.

The agents send ``reports`` of their processes to ``watch``. ``observation`` holds the reports, and
``judgement`` asks ``progress`` whether the gang stands still. ``comparison`` finds slow ranks, and
``gangprogress`` measures the progress for the Framework's status.
"""
