"""The containers' logs, kept after their Pods are removed.

``launcher`` writes them; ``GET pods/NAME/log`` and ``framework logs`` read them. Each Pod has a
directory ``ROOT/logs/NAMESPACE_POD_UID/`` with ``CONTAINER.log`` (lines of the form
``TIME STREAM F|P TEXT``), ``CONTAINER.previous.log`` and ``pod.json`` (the Pod's identity).
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec

from framework.clock import Clock
from framework.kube.resources import Object
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import WHOLE_LOG, ContainerLog, LogReadOptions
from localcluster.private_files import read_regular_file

_CHUNK_BYTES = 256 * 1024
_FOLLOW_SECONDS = 0.05
_TAIL_LINES = 80
_TAIL_BYTES = 2048
_POD_FILE = "pod.json"
# An object of the API has no more bytes, and this file has only parts of an object.
_MAX_POD_FILE_BYTES = 4 * 1024 * 1024


class _PodFile(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """The contents of ``pod.json``: facts about a Pod."""

    namespace: str
    pod: str
    """Its name."""
    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    first_container: str | None
    """Init containers do not count."""
    started_at: Annotated[datetime, msgspec.Meta(tz=True)]
    """When the kubelet started it."""


class KeptLog(_PodFile, frozen=True):
    """The log of a container; its Pod may be deleted."""

    container: str

    @property
    def is_first(self) -> bool:
        """Return whether it is the Pod's first container."""
        return self.container == self.first_container


class LogStore:
    """Implements the API server's ``PodLogSource``."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """Keep the logs below ``root``."""
        self._root = root
        self._clock = clock
        self._open: set[Path] = set()

    # --- For the kubelet ------------------------------------------------------------------------

    def register_pod(self, pod: Object) -> None:
        """Make the Pod's directory, and record its Pod in it."""
        metadata, directory = pod["metadata"], self._directory(pod)
        directory.mkdir(parents=True, exist_ok=True)
        owner = _PodFile(
            namespace=metadata["namespace"],
            pod=metadata["name"],
            uid=metadata["uid"],
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            first_container=_find_first_container(pod),
            started_at=self._clock.now(),
        )
        (directory / _POD_FILE).write_bytes(msgspec.json.encode(owner))

    def open_log(self, pod: Object, container: str) -> Path:
        """Return a new log for a container that is about to start; keep the old one as previous."""
        directory = self._directory(pod)
        path = directory / f"{container}.log"
        if path.exists():
            path.replace(directory / f"{container}.previous.log")
        path.touch()
        self._open.add(path)
        return path

    def close_log(self, path: Path) -> None:
        """Mark a log as complete; streams that follow it end."""
        self._open.discard(path)

    def read_tail(self, path: Path) -> str:
        """Return the end of a log as a termination message: 80 lines or 2048 bytes."""
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _CHUNK_BYTES))
                lines = file.read().splitlines(keepends=True)[-_TAIL_LINES:]
        except OSError:
            return ""
        text = b"".join(_format_line(line, timestamps=False) for line in lines)
        return text[-_TAIL_BYTES:].decode("utf-8", "replace")

    # --- For readers ----------------------------------------------------------------------------

    def list_kept(self, namespace: str, labels: Mapping[str, str]) -> list[KeptLog]:
        """List the logs of Pods that had these labels, oldest Pod first."""
        found = []
        for directory in self._root.glob(f"{namespace}_*_*"):
            owner = _read_owner(directory)
            if owner is None or not labels.items() <= owner.labels.items():
                continue
            found += [
                KeptLog(**msgspec.structs.asdict(owner), container=path.name.removesuffix(".log"))
                for path in directory.glob("*.log")
                if not path.name.endswith(".previous.log")
            ]
        return sorted(found, key=lambda log: (log.started_at, log.pod, log.uid, log.container))

    async def stream(
        self, log: ContainerLog, options: LogReadOptions = WHOLE_LOG
    ) -> AsyncGenerator[bytes]:
        """Yield a log in pieces; without such a log, raise StatusError (400 or 404)."""
        path = self._find(log, is_previous=options.previous)
        cutoff = self._compute_cutoff(options)
        left = options.limit_bytes
        pieces = self._read(path, _find_tail(path, options.tail_lines), follow=options.follow)
        is_line_start = True
        async with contextlib.aclosing(pieces):
            async for lines in pieces:
                parts = []
                for line in lines:
                    if line >= cutoff:
                        # Only the first part of a long line has the time.
                        has_time = options.timestamps and is_line_start
                        parts.append(_format_line(line, timestamps=has_time))
                        is_line_start = parts[-1].endswith(b"\n")
                piece = b"".join(parts)
                if left is not None:
                    piece, left = piece[:left], left - min(left, len(piece))
                if piece:
                    yield piece
                if left == 0:
                    return

    def _compute_cutoff(self, options: LogReadOptions) -> bytes:
        """Return the least start of lines to read: lines are compared with it as bytes."""
        since = options.since_time
        if options.since_seconds is not None:
            since = self._clock.now() - timedelta(seconds=options.since_seconds)
        if since is None:
            return b""
        return since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode()

    async def _read(self, path: Path, offset: int, *, follow: bool) -> AsyncGenerator[list[bytes]]:
        """Yield whole lines from ``offset`` on."""
        with path.open("rb") as file:
            file.seek(offset)
            rest = b""
            while True:
                # Checked before the read, so that all lines before the close are read.
                is_open = path in self._open
                chunk = file.read(_CHUNK_BYTES)
                *lines, rest = (rest + chunk).split(b"\n")
                if lines:
                    yield lines
                if not chunk and not (follow and is_open):
                    return
                # Other tasks of the loop run between the chunks of a large log.
                await asyncio.sleep(0 if chunk else _FOLLOW_SECONDS)

    def _find(self, log: ContainerLog, *, is_previous: bool) -> Path:
        namespace, pod, container, uid = log
        candidates = [
            (owner.started_at, directory)
            for directory in self._root.glob(f"{namespace}_{pod}_{uid or '*'}")
            if (owner := _read_owner(directory)) is not None
        ]
        if not candidates:
            raise StatusError(404, "NotFound", f'no log of pod "{namespace}/{pod}" is kept')
        path = max(candidates)[1] / f"{container}{'.previous' if is_previous else ''}.log"
        if not path.exists():
            text = (
                f'previous terminated container "{container}" in pod "{pod}" not found'
                if is_previous
                else f'container "{container}" in pod "{pod}" is waiting to start'
            )
            raise StatusError(400, "BadRequest", text)
        return path

    def _directory(self, pod: Object) -> Path:
        metadata = pod["metadata"]
        # No underscore can be in one of the three.
        return self._root / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"


def _find_first_container(pod: Object) -> str | None:
    containers = (pod.get("spec") or {}).get("containers") or ()
    return str(containers[0]["name"]) if containers else None


def _read_owner(directory: Path) -> _PodFile | None:
    """Read the Pod of a directory of logs; None without a valid file of this kind."""
    try:
        text = read_regular_file(directory / _POD_FILE, _MAX_POD_FILE_BYTES)
        return msgspec.json.decode(text, type=_PodFile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _format_line(line: bytes, *, timestamps: bool) -> bytes:
    """Return the output of the container in ``TIME STREAM F|P TEXT``."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) != 4:  # noqa: PLR2004 the four of the form above
        return line
    time, _, tag, text = parts
    end = b"\n" if tag == b"F" else b""
    return (time + b" " if timestamps else b"") + text + end


def _find_tail(path: Path, lines: int | None) -> int:
    """Return the offset of the last ``lines`` lines."""
    end = path.stat().st_size
    if lines is None or lines <= 0:
        return 0 if lines is None else end
    found = 0
    for offset, chunk in _read_backwards(path, end):
        at = len(chunk)
        while (at := chunk.rfind(b"\n", 0, at)) >= 0:
            # The newline at the end of the file starts no line.
            found += offset + at != end - 1
            if found == lines:
                return offset + at + 1
    return 0


def _read_backwards(path: Path, end: int) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        while end > 0:
            start = max(0, end - _CHUNK_BYTES)
            file.seek(start)
            yield start, file.read(end - start)
            end = start
