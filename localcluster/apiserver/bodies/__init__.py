"""From the body of a request to an object: decoding as Go types do it, and the patches. Pure."""
