"""The decisions about jobs of other kinds. Pure: one function for each kind."""
