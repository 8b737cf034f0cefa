"""Runs a command that dies with whoever started it: ``python -m localcluster.tether PPID CMD...``.

Called by ``localcluster.supervisor``. The kernel keeps the order across ``exec``, so the command
itself needs to know nothing of it. A parent killed by -9 leaves no children behind. Linux only.
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
    # The parent may have died before the order was given: then nobody would carry it out.
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 no shell is wanted


if __name__ == "__main__":
    main(sys.argv)
