"""HTTP: authentication, paths, verbs, streams of watch events."""
