"""The files of users: their documents, the objects to apply, and the faults of Frameworks."""
