"""What training code imports. `install` copies this folder, without this file, to the volume."""
