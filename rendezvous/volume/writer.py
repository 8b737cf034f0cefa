"""Writes generations into the volume: each appears whole, and the last complete one stays current.

Layout of the directory::

    current -> gen-7        replaced by rename, so it always leads to a whole generation
    gen-7/ gen-6/           files of mode 0444, and .agent.json, which an agent reads at its start
    discover_hosts.sh       files that are the same in every generation
    .running .ended         written by the wrapper, for a sidecar

``records`` has the other files.

A kill at any point leaves the old generation or the new one current. Files that it leaves have
names that no reader uses; the next write removes them. At least one generation besides the current
one is kept: a process may be reading it, and discover_hosts.sh falls back to it.

To write a generation:

1. Write its files into a new folder and sync them to the disk.
2. Rename the folder to ``gen-N``, and then a new link to ``current``.
3. After processes were notified: sync the directory and remove older generations.

A Pod may have two agents on one volume (a sidecar beside the wrapper), so an agent locks the volume
before it decides to show a generation.

Rules: docs/design/agents.md, "Generations in the volume".
"""

import base64
import contextlib
import json
import os
import re
import shutil
import stat
import threading
from typing import ContextManager, Dict, List, Mapping, Optional

from framework.agent.files import write_atomically
from framework.api.packed import Bounds, parse_json
from framework.api.roster import decode_stored_roster, encode_roster
from rendezvous.core.selection import Generation
from rendezvous.renderers.rendered import RenderedFile
from rendezvous.volume.lock import lock_volume
from rendezvous.volume.records import Records, read_file

CURRENT = "current"
STATE_FILE = ".agent.json"
_GENERATION = re.compile(r"gen-([1-9][0-9]{0,17})\Z")
# Without the files of the barrier and the wrapper, which write without the lock.
_LEFTOVER = re.compile(
    r"\.(new|old|link)-[0-9a-f]{12}\Z"
    r"|(?!injector\.sh|framework\.json|FB_|\.running).*\.[0-9a-f]{12}\.tmp\Z"
)
_MAX_STATE_BYTES = 2 * 1024 * 1024
_STATE_BOUNDS = Bounds(_MAX_STATE_BYTES, _MAX_STATE_BYTES, 16)


class Writer:
    """Writes generations into one directory."""

    def __init__(self, directory: str) -> None:
        """Write into ``directory``; ``prepare`` creates it."""
        self._directory = directory
        self.records = Records(directory)

    def prepare(self) -> None:
        """Create the directory, and check that it can be written.

        Raises:
            OSError: It cannot be created or written.
        """
        os.makedirs(self._directory, exist_ok=True)
        probe = self._get_path(".new-" + os.urandom(6).hex())
        os.mkdir(probe)
        with contextlib.suppress(FileNotFoundError):  # another agent has tidied up
            os.rmdir(probe)

    def alone(self) -> ContextManager[None]:
        """Lock the volume (``lock_volume``)."""
        return lock_volume(self._directory)

    def write(
        self,
        generation: Generation,
        files: Mapping[str, RenderedFile],
        fixed: Mapping[str, RenderedFile],
    ) -> None:
        """Write a generation and make it current.

        Raises:
            OSError: The volume is full or not writable; the earlier generation is still current.
        """
        name = f"gen-{generation.number}"
        self._write_generation(name, {**files, STATE_FILE: _encode_state(generation)})
        for file_name, file in fixed.items():
            self._write_fixed(file_name, file)
        self._swap(name)

    def settle(self) -> None:
        """Sync and clean the directory. Call it after processes were notified, because it is slow.

        Raises:
            OSError: The disk is broken.
        """
        _sync(self._directory)
        with self.alone():
            self._clean()

    def read_current(self) -> Optional[Generation]:
        """Read the current generation; None if there is none, or no agent wrote it."""
        while True:
            name = self._find_current_name()
            generation = self._read_state(name) if name else None
            # Otherwise newer generations came, and this one was removed meanwhile.
            if generation is not None or self._find_current_name() == name:
                return generation

    def read_generation(self, number: int) -> Optional[Generation]:
        """Read an older generation, if it is still there."""
        return self._read_state(f"gen-{number}")

    def find_last_number(self) -> int:
        """Find the number of the current generation, also if no agent wrote it; 0: none."""
        name = self._find_current_name()
        return int(name[4:]) if name else 0

    def _write_generation(self, name: str, files: Mapping[str, RenderedFile]) -> None:
        """Write all files into a new folder, then rename the folder."""
        new = self._get_path(".new-" + os.urandom(6).hex())
        os.mkdir(new, 0o700)
        try:
            paths = [os.path.join(new, file_name) for file_name in files]
            for path, file in zip(paths, files.values()):
                _write_new(path, file)
            os.chmod(new, 0o755)  # noqa: S103  (independent of the umask)
            _sync_all([*paths, new])
            self._remove(name)  # left by an agent that was killed before it became current
            os.rename(new, self._get_path(name))
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _write_fixed(self, name: str, file: RenderedFile) -> None:
        path = self._get_path(name)
        with contextlib.suppress(OSError):
            with open(path, "rb") as current:
                is_same = current.read(len(file.content) + 1) == file.content
            if is_same and stat.S_IMODE(os.lstat(path).st_mode) == file.mode:
                return
        write_atomically(path, file.content, file.mode)

    def _swap(self, name: str) -> None:
        link = self._get_path(".link-" + os.urandom(6).hex())
        os.symlink(name, link)
        try:
            os.rename(link, self._get_path(CURRENT))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(link)
            raise

    def _clean(self) -> None:
        """Remove old generations and leftovers; the next call tries again if that fails."""
        current = self.find_last_number()
        numbers = [int(name[4:]) for name in self._list_generations()]
        before = max((n for n in numbers if n < current), default=0)
        kept = {current, before, self.records.read_notified().generation}
        for number in numbers:
            # A number above the current one was never current: its agent was killed before.
            if number not in kept or number > current:
                with contextlib.suppress(OSError):
                    self._remove(f"gen-{number}")
        for name in os.listdir(self._directory):
            if _LEFTOVER.match(name):
                self._delete(self._get_path(name))

    def _remove(self, name: str) -> None:
        """Rename a generation, so that no reader finds a part of it, then delete it."""
        old = self._get_path(".old-" + os.urandom(6).hex())
        try:
            os.rename(self._get_path(name), old)
        except FileNotFoundError:
            return
        self._delete(old)

    @staticmethod
    def _delete(path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _list_generations(self) -> List[str]:
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        return [name for name in names if _GENERATION.match(name)]

    def _find_current_name(self) -> str:
        name = self._read_link()
        while name and not os.path.isdir(self._get_path(name)):
            # Either no agent wrote the link, or newer generations came and this one was removed.
            before, name = name, self._read_link()
            if name == before:
                return ""
        return name

    def _read_link(self) -> str:
        try:
            name = os.readlink(self._get_path(CURRENT))
        except OSError:
            return ""
        return name if _GENERATION.match(name) else ""

    def _read_state(self, name: str) -> Optional[Generation]:
        text = read_file(self._get_path(os.path.join(name, STATE_FILE)), _MAX_STATE_BYTES)
        try:
            state = parse_json(text.encode("utf-8"), _STATE_BOUNDS)
            roster = decode_stored_roster(state["roster"])
            return Generation(roster, str(state["source"]), int(state["sourceGeneration"]))
        except (ValueError, KeyError, TypeError, OverflowError):
            return None  # no agent wrote it

    def _get_path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _encode_state(generation: Generation) -> RenderedFile:
    state: Dict[str, object] = {
        "source": generation.source,
        "sourceGeneration": generation.source_generation,
        "roster": base64.b64encode(encode_roster(generation.roster)).decode(),
    }
    return RenderedFile(json.dumps(state).encode())


def _write_new(path: str, file: RenderedFile) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        left = memoryview(file.content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fchmod(descriptor, file.mode)
    finally:
        os.close(descriptor)


def _sync_all(paths: List[str]) -> None:
    """Sync files to the disk in parallel: each sync waits for the journal.

    No other sync is needed: a later rename does not reach the disk before these files.

    Raises:
        OSError: A file cannot be synced.
    """
    faults: List[OSError] = []

    def sync(path: str) -> None:
        try:
            _sync(path)
        except OSError as e:
            faults.append(e)

    threads = [threading.Thread(target=sync, args=(path,), name="sync") for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
