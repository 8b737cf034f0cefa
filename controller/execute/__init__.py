"""Execute: requests to the API server, and what their answers mean."""
