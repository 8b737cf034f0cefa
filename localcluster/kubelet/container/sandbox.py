"""Finds out once which namespaces a container can have on this host, by trying them.

Some hosts forbid user namespaces (a sysctl, AppArmor), some containers forbid mounts.
"""

import asyncio
import logging
import os
from enum import StrEnum
from pathlib import Path

from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import ContainerProcess, LaunchSpec, Namespaces
from localcluster.stdio import StartError

logger = logging.getLogger(__name__)

NO_NAMESPACES = Namespaces(private_root=False, pid=False, user=False)
# Only ends a hanging trial: on a busy machine the start of a process takes many seconds.
_TRIAL_SECONDS = 60.0


class Isolation(StrEnum):
    """How volumes appear at their mountPath."""

    AUTO = "auto"
    """A private root where the host allows it, else path replacement."""
    ROOT = "root"
    """A private root, or an error."""
    PATHS = "paths"
    """Path replacement."""


class IsolationError(Exception):
    """The requested isolation is not available here."""


async def detect_namespaces(
    isolation: Isolation, root: Path, server: ForkServerProcess
) -> Namespaces:
    """Return the best namespaces that the host allows, by trials below ``root``.

    Raises:
        IsolationError: a private root is requested and forbidden.
    """
    if isolation is Isolation.PATHS:
        return NO_NAMESPACES
    reasons = []
    for candidate in _list_candidates():
        try:
            await _try(candidate, root, server)
        except StartError as e:
            reasons.append(f"{candidate}: {e}")
        except TimeoutError:
            reasons.append(f"{candidate}: timed out")
        else:
            return candidate
    if isolation is Isolation.ROOT:
        raise IsolationError(
            f"isolation: this host forbids mount namespaces ({'; '.join(reasons)}); "
            f'allow unprivileged user namespaces, or use isolation "{Isolation.PATHS}"'
        )
    logger.info("no mount namespaces here, paths are replaced", extra={"tried": len(reasons)})
    return NO_NAMESPACES


def _list_candidates() -> list[Namespaces]:
    users = [False, True] if os.geteuid() == 0 else [True]
    return [
        Namespaces(private_root=True, pid=pid, user=user) for user in users for pid in (True, False)
    ]


async def _try(candidate: Namespaces, root: Path, server: ForkServerProcess) -> None:
    """Run a program in a root with a mount point that the host lacks."""
    base, volume = root / "trial-root", root / "trial-volume"
    base.mkdir(parents=True, exist_ok=True)
    volume.mkdir(exist_ok=True)
    spec = LaunchSpec(
        argv=["/bin/sh", "-c", "test -d /frameworkbarrier-trial/volume && test -e /proc/self/exe"],
        env={"PATH": os.defpath},
        cwd="/",
        namespaces=candidate,
        root=base,
        mounts=[(str(volume), "/frameworkbarrier-trial/volume", False)],
    )
    trial = ContainerProcess(server, spec)
    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            await trial.started()
            code = await trial.wait()
    finally:
        if not trial.has_ended:
            await trial.kill()
    if code != 0:
        raise StartError(f"a trial ended with exit code {code}")
