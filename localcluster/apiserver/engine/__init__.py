"""Rules of every kind: versions, watches, writes, deletion, collection."""
