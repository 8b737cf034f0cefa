"""Errors, names, quantities, resource types and metadata of the API server. Pure."""
