"""Finds the older Pythons of users' images on this machine."""

import os
import subprocess
from pathlib import Path

import pytest

OLDEST = "3.7"


def find_old_python(version: str = OLDEST) -> str:
    """Find an interpreter of $PYTHON37 and the like, of the PATH, or pyenv's; skip without one.

    The interpreter must print its version: the stub of a version switcher may start another one.
    """
    variable = f"PYTHON{version.replace('.', '')}"
    places = [os.environ.get(variable, "")]
    places += [f"{folder}/python{version}" for folder in os.environ["PATH"].split(":")]
    places += map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for place in places:
        if place and os.access(place, os.X_OK):
            ran = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
            if f"Python {version}." in ran.stdout:
                return place
    pytest.skip(f"no Python {version}: install one, or name it by {variable}")
