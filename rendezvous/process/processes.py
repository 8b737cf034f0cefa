"""Reads facts about processes from /proc."""

import os
from typing import Collection, Iterator, List

_MAX_BYTES = 65536
_MAX_COMMAND_BYTES = 4096


def read_file(pid: int, name: str, root: str = "/proc") -> bytes:
    """Read a file of a process; b"" if there is no such process."""
    try:
        with open(f"{root}/{pid}/{name}", "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""


def read_stat(pid: int, root: str = "/proc") -> List[bytes]:
    """Read the fields of a process's ``stat`` after its name: state, parent, ...

    Returns:
        The fields; [] if there is no such process.
    """
    # The name is in parentheses and may contain any character.
    return read_file(pid, "stat", root).rpartition(b")")[2].split()


def find_processes(name: str, root: str = "/proc") -> List[int]:
    """Find processes by name: that of the program, or of the first script it runs."""
    found = []
    for pid in list_processes(root):
        command = read_file(pid, "cmdline", root)[:_MAX_COMMAND_BYTES]
        words = command.decode("utf-8", "replace").split("\0")
        # Users call "python3 -u /app/train.py" by the name train.py.
        script = next((word for word in words[1:] if word and not word.startswith("-")), "")
        if name in {os.path.basename(words[0]), os.path.basename(script)} and pid != os.getpid():
            found.append(pid)
    return found


def list_processes_naming(hosts: Collection[str], root: str = "/proc") -> List[str]:
    """List the processes with one of the hosts as a word of their command line.

    Returns:
        Their programs and hosts, for example "ssh to job-worker-1". This process, its parent and
        its children are not in the list: they are the training command and scripts.
    """
    wanted, own, found = frozenset(hosts), os.getpid(), []
    related = {own, os.getppid()}
    for pid in list_processes(root):
        words = read_file(pid, "cmdline", root).decode("utf-8", "replace").split("\0")
        named = next((w for w in words[1:] if w.rpartition("@")[2] in wanted), "")
        if not named or pid in related:
            continue
        parent = read_stat(pid, root)[1:2]
        if parent and int(parent[0]) != own:
            found.append(f"{os.path.basename(words[0])} to {named}")
    return found


def list_processes(root: str = "/proc") -> Iterator[int]:
    """List the ids of all visible processes."""
    return (int(name) for name in os.listdir(root) if name.isdigit())
