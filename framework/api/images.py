"""The names of the images and programs of this project in Pod templates. Pure.

Python 3.7 syntax, because the zipapp of the agents contains this file.
"""

from typing import Iterable, Mapping, Optional, Tuple

# A program: its Python module, and the part of its image name after IMAGE_PREFIX.
BARRIER = "barrier"
CONTROLLER = "controller"
RENDEZVOUS = "rendezvous"

IMAGE_PREFIX = "framework-"
# Default registry of the images.
REGISTRY = "frameworkbarrier"
# Images of the original, so that Pod templates written for it run unchanged.
_ORIGINAL_IMAGES: Mapping[str, str] = {
    "frameworkbarrier": BARRIER,
    "frameworkcontroller": CONTROLLER,
}
_PROGRAMS: Mapping[str, str] = {
    **{IMAGE_PREFIX + program: program for program in (BARRIER, CONTROLLER, RENDEZVOUS)},
    **_ORIGINAL_IMAGES,
}

# Path in a volume of the agent that `rendezvous install` copies, for images without an agent.
INSTALLED_AGENT = "agent/rendezvous.pyz"
# Beside it: starts a command in another member, and is called as ssh is.
RSH_SCRIPT = "agent/kubexec.sh"


def get_image_name(image: str) -> str:
    """Return ``barrier`` of ``registry:5000/team/barrier:v1@sha256:...``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def find_program(image: str) -> Optional[str]:
    """Find the program of an image, of any registry and version; None for another image."""
    return _PROGRAMS.get(get_image_name(image))


def list_image_names() -> Tuple[str, ...]:
    """List the names of the images of this project, without those of the original."""
    return tuple(IMAGE_PREFIX + program for program in (BARRIER, CONTROLLER, RENDEZVOUS))


def is_unversioned(image: str) -> bool:
    """Return whether an image of this project has neither a tag nor a digest.

    That means `latest`, which this project does not publish; the original does.
    """
    name = image.rpartition("/")[2]
    return name in _PROGRAMS and name not in _ORIGINAL_IMAGES


def starts_installed_agent(words: Iterable[str]) -> bool:
    """Return whether a container starts the agent from a volume.

    Args:
        words: its ``command`` and ``args``; a shell script is one word.
    """
    return any("/" + INSTALLED_AGENT in word for word in words)
