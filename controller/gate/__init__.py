"""Gate: whether this controller may write at this moment."""
