"""``python -m rendezvous``: the entry point of the image."""

from rendezvous.app import main

main()
