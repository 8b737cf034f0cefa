"""The volumes of a Pod, and the directory that holds them."""
