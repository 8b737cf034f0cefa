"""Config: the config file of the controller."""
