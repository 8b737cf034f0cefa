"""HTTP: authentication, paths, verbs, streams of watch events.

A refused request raises ``StatusError``; ``routes`` makes it the answer.
"""
