"""``framework logs``: the output of the containers of a Framework."""
