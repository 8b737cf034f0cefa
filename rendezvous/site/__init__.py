"""The folder for training code. `install` copies it, without this file, into the volume."""
