"""Runs a command that ends with its parent: ``python -m localcluster.parent_death PPID CMD...``.

The kernel keeps the parent-death signal across ``exec``, so the command needs no change. A parent
that is killed with SIGKILL leaves no children. Linux only.
"""

import os
import sys

from localcluster.syscalls import end_with_parent


def main(argv: list[str]) -> None:
    """Tie this process to its parent and become the command."""
    parent, command = int(argv[1]), argv[2:]
    end_with_parent(parent)
    os.execv(command[0], command)  # noqa: S606 no shell is wanted


if __name__ == "__main__":
    main(sys.argv)
