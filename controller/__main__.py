"""Lets ``python -m controller`` start the controller."""

from controller.app import main

if __name__ == "__main__":
    main()
