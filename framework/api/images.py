"""The images and programs of this project, as Pod templates name them.

Called by the CLI, which adds agents to templates and judges them, by the local cluster, which runs
this installation in the images' stead, and by the rendezvous agent, which looks for itself in its
own Pod. Pure. Written for Python 3.7 (agents' zipapp).
"""

from typing import Iterable, Mapping, Optional

# A program: its Python module, and what follows IMAGE_PREFIX in the name of its image.
BARRIER = "barrier"
CONTROLLER = "controller"
RENDEZVOUS = "rendezvous"

IMAGE_PREFIX = "framework-"
# Where the images are, unless the user has them elsewhere.
REGISTRY = "frameworkbarrier"
# The Go original's images: Pod templates that were written for it run as they are.
_ORIGINAL_IMAGES: Mapping[str, str] = {
    "frameworkbarrier": BARRIER,
    "frameworkcontroller": CONTROLLER,
}
_PROGRAMS: Mapping[str, str] = {
    **{IMAGE_PREFIX + program: program for program in (BARRIER, CONTROLLER, RENDEZVOUS)},
    **_ORIGINAL_IMAGES,
}

# What `rendezvous install` puts into a volume, for images that hold no agent: its path there.
INSTALLED_AGENT = "agent/rendezvous.pyz"


def get_image_name(image: str) -> str:
    """Return ``barrier`` of ``registry:5000/team/barrier:v1@sha256:...``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def find_program(image: str) -> Optional[str]:
    """Find the program that an image runs, of whatever registry and version; None: not ours."""
    return _PROGRAMS.get(get_image_name(image))


def is_unversioned(image: str) -> bool:
    """Return whether an image is one of ours without a tag and a digest.

    That means `latest`, and nothing of ours is published as such; the original's is.
    """
    name = image.rpartition("/")[2]
    return name in _PROGRAMS and name not in _ORIGINAL_IMAGES


def starts_installed_agent(words: Iterable[str]) -> bool:
    """Return whether a container of any image starts the agent that a volume holds.

    Args:
        words: its ``command`` and ``args``; a shell's script is one word of them.
    """
    return any("/" + INSTALLED_AGENT in word for word in words)
