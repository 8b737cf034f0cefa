"""Programs for developers, called by the Makefile; nothing in the product imports them."""
