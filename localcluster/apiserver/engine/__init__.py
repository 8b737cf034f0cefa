"""The laws of the store, whatever the kind: versions, watches, writes, deletion, collection."""
