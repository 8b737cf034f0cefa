"""Programs for developers, called by the Makefile; the product does not import them."""
