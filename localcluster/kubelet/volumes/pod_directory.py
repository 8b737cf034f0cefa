"""A Pod's files on the host: volumes, termination logs, hosts and resolv.conf.

All are below ``ROOT/pods/UID`` and are removed with the Pod. Logs are elsewhere, because they stay.
"""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from localcluster.kubelet.fields import FieldError
from localcluster.kubelet.volumes.volumes import (
    EMPTY_DIR_MODE,
    DirectoryVolume,
    HostVolume,
    MountPlan,
    Volume,
    locate_volume,
)

_MESSAGE_LIMIT = 4096


class PodDirectory:
    """The directory of one Pod."""

    def __init__(self, root: Path, uid: str) -> None:
        """Name the directory; nothing is made yet."""
        self.path = root / "pods" / uid
        self.volumes = self.path / "volumes"
        self.name_files: dict[str, Path] = {}
        """Path in the container -> file here."""
        # Always empty on the host: each container mounts its root over it, in its own namespace.
        self.private_root = self.path / "root"

    def make(self, name_files: Mapping[str, str]) -> None:
        """Make the directory."""
        for directory in (self.volumes, self.private_root):
            directory.mkdir(parents=True, exist_ok=True)
        # It contains tokens and Secrets, so only the user of the kubelet may read it.
        self.path.chmod(0o700)
        for target, content in name_files.items():
            path = self.path / target.rpartition("/")[2]
            path.write_text(content)
            self.name_files[target] = path

    def write_volumes(self, volumes: Mapping[str, Volume], group: int | None = None) -> None:
        """Make the volumes that are not of the host; ``group`` (``fsGroup``), if any, owns them."""
        for name, volume in volumes.items():
            path = locate_volume(name, volume, self.volumes)
            if isinstance(volume, HostVolume):
                _check_host_path(path, volume.kind)
            else:
                _write_directory(path, volume, group)

    def remove(self) -> None:
        """Remove everything; volumes of the host stay."""
        shutil.rmtree(self.path, ignore_errors=True)

    def reset_termination_log(self, container: str) -> Path:
        """Return the empty termination log of a container about to start."""
        path = self.path / "containers" / container / "termination-log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        path.chmod(0o666)
        return path

    def read_termination_log(self, container: str) -> str:
        """Return the content of the termination log."""
        path = self.path / "containers" / container / "termination-log"
        try:
            with path.open("rb") as file:
                return file.read(_MESSAGE_LIMIT).decode("utf-8", "replace")
        except OSError:
            return ""

    def make_scratch(self, container: str) -> Path:
        """Return a directory for the files of a container that has no private root."""
        path = self.path / "containers" / container / "work"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def locate_mount(self, plan: MountPlan, volumes: Mapping[str, Volume]) -> Path:
        """Return the path to mount; a missing subPath is created as a directory."""
        base = locate_volume(plan.volume, volumes[plan.volume], self.volumes)
        if not plan.sub_path:
            return base
        path = base / plan.sub_path
        if not path.resolve().is_relative_to(base.resolve()):
            # A container of the Pod may have created a link that leads out of the volume.
            raise FieldError(f"subPath {plan.sub_path} leads out of the volume {plan.volume}")
        if not path.exists():
            path.mkdir(parents=True)
            path.chmod(EMPTY_DIR_MODE)
        return path


def _write_directory(path: Path, volume: DirectoryVolume, group: int | None) -> None:
    path.mkdir(exist_ok=True)
    if group is not None:
        os.chown(path, -1, group)
    path.chmod(EMPTY_DIR_MODE | (0 if group is None else stat.S_ISGID))
    for file in volume.files:
        target = path / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        # A retry after a failed volume finds the files of the earlier volumes.
        target.unlink(missing_ok=True)
        target.write_bytes(file.content)
        if group is not None:
            os.chown(target, -1, group)
        # Like the kubelet: the group may read the files that the owner may read.
        target.chmod(file.mode if group is None else file.mode | stat.S_IRUSR | stat.S_IRGRP)


def _check_host_path(path: Path, kind: str) -> None:
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch()
    expected = {
        "Directory": path.is_dir,
        "DirectoryOrCreate": path.is_dir,
        "File": path.is_file,
        "FileOrCreate": path.is_file,
        "Socket": path.is_socket,
        "CharDevice": path.is_char_device,
        "BlockDevice": path.is_block_device,
    }.get(kind)
    if expected is not None and not expected():
        raise FieldError(f"hostPath type check failed: {path} is not a {kind}")
    if not kind and not path.exists():
        # Like a container runtime for a bind mount without a source.
        path.mkdir(parents=True, exist_ok=True)
