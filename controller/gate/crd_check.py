"""Checks that the server has Frameworks with a status subresource: at the start, and from then on.

Without /status, each status write would also be a spec write (docs/design/state-machines.md,
"Failed writes"). The checks read the server's discovery, which every user may read and which has
only the served versions of established CRDs. To read the CRD itself would need another right.

    CrdError    the CRD is missing or not usable
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import msgspec

from framework.api.constants import (
    FRAMEWORK_CRD_NAME,
    FRAMEWORK_PLURAL,
    GROUP,
    VERSION,
)
from framework.kube.client import KubeClient
from framework.kube.errors import ForbiddenError, KubeError, NotFoundError

logger = logging.getLogger(__name__)

# Forced: the client that made the stored CRD owns its versions, and no other client may change
# them by an ordinary server-side apply.
_REMEDY = (
    "apply deploy/base/crd.yaml of this release "
    "(kubectl apply --server-side --force-conflicts -f crd.yaml)"
)
# The Go original installs its own CRD again at each start.
_REMEDY_WITHOUT_STATUS = f"stop the controller that installed its own CRD, and {_REMEDY}"
_PAUSE_SECONDS = 1.0
# A changed CRD is found at once by a write that fails; this is for times without writes.
_PERIOD_SECONDS = 60.0
# A server needs a moment to serve a CRD that was just applied.
_SERVED_SECONDS = 5.0
_NO_STATUS = f"the CRD {FRAMEWORK_CRD_NAME} has no status subresource"


class CrdError(Exception):
    """The CRD is missing or not usable; the message has the remedy."""


async def check_crd(
    client: KubeClient, timeout_seconds: float, interval_seconds: float = _PAUSE_SECONDS
) -> None:
    """Wait until Frameworks are served; wait without end for a server that cannot be reached.

    Args:
        client: of the API server.
        timeout_seconds: how long a missing CRD is waited for.
        interval_seconds: time between two checks of it.

    Raises:
        CrdError: It has no status subresource and gets none within 5 seconds, or is still missing
            after ``timeout_seconds``.
    """
    waited, without_status, last_problem = 0.0, 0.0, ""
    while True:
        try:
            problem = await find_problem(client)
        except KubeError as e:
            logger.warning("API server not reachable, retrying", extra={"error": str(e)})
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if not problem:
            return
        lacks_status = problem == _NO_STATUS
        allowed = min(_SERVED_SECONDS, timeout_seconds) if lacks_status else timeout_seconds
        left = allowed - (without_status if lacks_status else waited)
        if left <= 0:
            raise CrdError(_add_remedy(problem))
        if problem != last_problem:
            logger.warning("waiting for the CRD", extra={"problem": _add_remedy(problem)})
            last_problem = problem
        pause = min(interval_seconds, left)
        await asyncio.sleep(pause)
        waited += pause
        without_status = without_status + pause if lacks_status else 0.0


async def find_problem(client: KubeClient) -> str:
    """Find why this server's Frameworks are not usable; "" if they are.

    Raises:
        KubeError: the server did not answer.
    """
    try:
        answer = await client.get_raw(f"/apis/{GROUP}/{VERSION}")
    except ForbiddenError:
        logger.info("the CRD is not checked: the discovery may not be read; bind system:discovery")
        return ""
    except NotFoundError:
        return f"the CRD {FRAMEWORK_CRD_NAME} is not installed, or does not serve {VERSION}"
    served = _read_names(answer)
    if FRAMEWORK_PLURAL not in served:
        return f"the CRD {FRAMEWORK_CRD_NAME} does not serve {VERSION}"
    return "" if f"{FRAMEWORK_PLURAL}/status" in served else _NO_STATUS


class CrdGuard:
    """Checks the CRD again after a suspicion, and every minute; a ``WriteGate``."""

    def __init__(self, client: KubeClient, on_recovery: Callable[[], None]) -> None:
        """Read through ``client``; ``on_recovery`` is called when the CRD is usable again."""
        self.problem = ""
        self._client = client
        self._on_recovery = on_recovery
        self._suspected = asyncio.Event()

    def may_write(self) -> bool:
        """Return whether statuses can be written, according to the last check."""
        return not self.problem

    def suspect(self) -> None:
        """Check soon: a status write was answered with 404, although the Framework exists."""
        self._suspected.set()

    async def run(self) -> NoReturn:
        """Check again and again, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS if self.problem else _PERIOD_SECONDS):
                    await self._suspected.wait()
            self._suspected.clear()
            await self._check()

    async def _check(self) -> None:
        try:
            problem = await find_problem(self._client)
        except KubeError as e:
            # The state of the CRD is not known; the list-watches report the outage.
            logger.debug("CRD not checked", extra={"error": str(e)})
            return
        before, self.problem = self.problem, _add_remedy(problem) if problem else ""
        if self.problem and self.problem != before:
            logger.error(
                "controller paused: the CRD is not usable", extra={"problem": self.problem}
            )
        if before and not self.problem:
            logger.info("the CRD is usable again")
            self._on_recovery()


def _add_remedy(problem: str) -> str:
    remedy = _REMEDY_WITHOUT_STATUS if problem == _NO_STATUS else _REMEDY
    return f"{problem}: {remedy}"


def _read_names(answer: bytes) -> set[str]:
    """Read the names in an APIResourceList; empty if it cannot be read."""
    try:
        wire: Any = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return set()
    resources = wire.get("resources") if isinstance(wire, dict) else None
    return {str(r.get("name")) for r in resources or () if isinstance(r, dict)}
