"""From the body of a request to an object: decoding, patches. Pure."""
