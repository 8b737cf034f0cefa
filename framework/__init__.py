"""Packages that every program shares: the pure model, the agents' library and the client.

This module imports nothing, because the agents' zipapp carries parts of the package.
"""
