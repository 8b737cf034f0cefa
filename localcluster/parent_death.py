"""Runs a command that ends with its parent: ``python -m localcluster.parent_death PPID CMD...``.

The kernel keeps the parent-death signal across ``exec``, so the command needs no change. A parent
that is killed with SIGKILL leaves no children. Linux only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Tie this process to its parent and become the command."""
    parent, command = int(argv[1]), argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # A parent that died before prctl sends no signal.
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 no shell is wanted


if __name__ == "__main__":
    main(sys.argv)
