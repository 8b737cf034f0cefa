"""Execute: sends requests to the API server and records their answers."""
