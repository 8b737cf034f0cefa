"""Which images this installation stands for.

Called by ``container``. Pure. No image is pulled: a container runs its ``command`` on the host. The
images below are the exception; they map to the programs of this installation, so they need none.
"""

import sys
from collections.abc import Mapping, Sequence

# Last path component of an image's repository -> Python module of this installation.
# The two without a dash are the Go original's.
_PROGRAMS: Mapping[str, str] = {
    "frameworkbarrier": "barrier",
    "framework-barrier": "barrier",
    "frameworkcontroller": "controller",
    "framework-controller": "controller",
    "framework-rendezvous": "rendezvous",
}

# What `rendezvous install` puts into a volume, for images that hold no agent.
_INSTALLED_AGENT = "/agent/rendezvous.pyz"


def find_entrypoint(image: str) -> list[str] | None:
    """Return the entry point of one of our images, None for any other."""
    module = _PROGRAMS.get(_repository_name(image))
    # -P: the working directory is the Pod's, and not where Python should look for modules.
    return None if module is None else [sys.executable, "-P", "-m", module]


def _repository_name(image: str) -> str:
    """Return ``barrier`` of ``registry:5000/team/barrier:v1@sha256:...``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def build_argv(image: str, command: Sequence[str], args: Sequence[str]) -> list[str] | None:
    """Return what to run, as a runtime combines entry point, ``command`` and ``args``.

    Returns:
        None if there is no command and the image is none of ours.
    """
    if command:
        return [*command, *args]
    entrypoint = find_entrypoint(image)
    return None if entrypoint is None else [*entrypoint, *args]


def is_installed_agent(argv: Sequence[str]) -> bool:
    """Tell whether a container of any image runs the agent that its volume holds."""
    return any(_INSTALLED_AGENT in word for word in argv)


def explain_unknown_image(image: str) -> str:
    """Say why a container cannot run and what to do about it."""
    return (
        f"the local cluster runs a Pod's command on this machine and pulls no images; "
        f'image "{image}" has no entry point known here: give the container a `command`'
    )
