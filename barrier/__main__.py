"""``python -m barrier``: the entry point of the image."""

from barrier.app import main

main()
