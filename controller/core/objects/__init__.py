"""The objects of an attempt: which exist, who created them, and how they are rendered."""
