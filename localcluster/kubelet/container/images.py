"""The command of a container by its image. Pure.

No image is pulled: a container runs its ``command`` on the host. Our own images need none, because
this installation has their programs.
"""

import sys
from collections.abc import Sequence

from framework.api.images import find_program


def find_entrypoint(image: str) -> list[str] | None:
    """Return the entry point of one of our images, None for any other."""
    module = find_program(image)
    # -P: Python must not import modules from the working directory, which is of the Pod.
    return None if module is None else [sys.executable, "-P", "-m", module]


def build_argv(image: str, command: Sequence[str], args: Sequence[str]) -> list[str] | None:
    """Return the program and its arguments, from entry point, ``command`` and ``args``.

    Returns:
        None if there is no command and the image is none of ours.
    """
    if command:
        return [*command, *args]
    entrypoint = find_entrypoint(image)
    return None if entrypoint is None else [*entrypoint, *args]


def explain_unknown_image(image: str) -> str:
    """Explain why a container cannot run, and the remedy."""
    return (
        f"the local cluster runs a Pod's command on this machine and pulls no images; "
        f'image "{image}" has no entry point known here: give the container a `command`'
    )
