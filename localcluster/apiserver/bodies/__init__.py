"""From the body of a request to an object: decoding, patches. Pure.

A body or patch that cannot be read, or does not apply, raises ``StatusError``: 400, 415 or 422.
"""
