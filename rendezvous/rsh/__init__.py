"""Remote commands of a gang, in place of ssh: a client (``rsh``) and an endpoint in ``run``."""
