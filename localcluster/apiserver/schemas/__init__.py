"""The schema language of CRDs: checks of schemas and of values, defaults, pruning. Pure."""
