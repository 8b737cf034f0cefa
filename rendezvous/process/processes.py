"""What /proc says of processes."""

import os
from typing import Iterator, List


def read_stat(pid: int, root: str = "/proc") -> List[bytes]:
    """Read the fields of a process's ``stat`` after its name: state, parent, ...

    Returns:
        The fields; [] if there is no such process.
    """
    try:
        with open(f"{root}/{pid}/stat", "rb") as file:
            # The name is in parentheses and may hold anything.
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return []


def find_processes(name: str, root: str = "/proc") -> List[int]:
    """Find processes by their program's name: of the command line, or of its first script."""
    found = []
    for pid in list_processes(root):
        try:
            with open(f"{root}/{pid}/cmdline", "rb") as file:
                words = file.read(4096).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        # "python3 -u /app/train.py" is train.py to everybody but the kernel.
        script = next((word for word in words[1:] if word and not word.startswith("-")), "")
        if name in {os.path.basename(words[0]), os.path.basename(script)} and pid != os.getpid():
            found.append(pid)
    return found


def list_processes(root: str = "/proc") -> Iterator[int]:
    """List all processes that can be seen."""
    for name in os.listdir(root):
        if name.isdigit():
            yield int(name)
