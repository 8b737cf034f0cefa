"""``framework why``: what holds a Framework or made it fail, and what helps.

1. ``gathering`` reads objects with bounded requests; ``requests`` decides which.
2. ``observation`` gives the facts of what was read.
3. ``causes`` has one rule for each kind of cause; ``ranking`` puts the root cause first.
4. ``answers`` writes the answer as text or JSON.

Only ``gathering`` and ``command`` have I/O.
"""
