"""Checks that the server has Frameworks with a status subresource: at start, and ever after.

Without /status every status write would also be a spec
write (docs/design/state-machines.md, "Failed writes"). The checks read the server's discovery,
which every user may read and which names served versions of established CRDs only; to read the CRD
itself would take another right.

    CrdError    the CRD cannot be worked with
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
# The Go original puts its own back at each of its starts.
_REMEDY_FOR_UNFIT = f"stop the controller that installed its own CRD, and {_REMEDY}"
_PAUSE_SECONDS = 1.0
# A changed CRD shows at once by a write that fails; this is for when nothing is written.
_PERIOD_SECONDS = 60.0
# A server takes a moment to serve what was just applied.
_SERVED_SECONDS = 5.0
_NO_STATUS = f"the CRD {FRAMEWORK_CRD_NAME} has no status subresource"


class CrdError(Exception):
    """The CRD is missing or unfit; the message says what to apply."""


async def check_crd(client: KubeClient, timeout_seconds: float) -> None:
    """Wait until Frameworks are served; a server that is away is waited for without end.

    Raises:
        CrdError: It has no status subresource and gets none within 5 seconds, or is still missing
            after ``timeout_seconds``.
    """
    waited, unfit_for, last_problem = 0.0, 0.0, ""
    while True:
        try:
            problem = await find_problem(client)
        except KubeError as e:
            logger.warning("API server not reachable, retrying", extra={"error": str(e)})
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if not problem:
            return
        is_unfit = problem == _NO_STATUS
        allowed = min(_SERVED_SECONDS, timeout_seconds) if is_unfit else timeout_seconds
        if (unfit_for if is_unfit else waited) >= allowed:
            raise CrdError(_add_remedy(problem))
        if problem != last_problem:
            logger.warning("waiting for the CRD", extra={"problem": _add_remedy(problem)})
            last_problem = problem
        await asyncio.sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
        unfit_for = unfit_for + _PAUSE_SECONDS if is_unfit else 0.0


async def find_problem(client: KubeClient) -> str:
    """Find why this server's Frameworks cannot be worked with; "" if they can.

    Raises:
        KubeError: the server did not answer.
    """
    try:
        answer = await client.get_raw(f"/apis/{GROUP}/{VERSION}")
    except ForbiddenError:
        logger.info("may not read the discovery: CRD not checked")
        return ""
    except NotFoundError:
        return f"the CRD {FRAMEWORK_CRD_NAME} is not installed, or does not serve {VERSION}"
    served = _read_names(answer)
    if FRAMEWORK_PLURAL not in served:
        return f"the CRD {FRAMEWORK_CRD_NAME} does not serve {VERSION}"
    return "" if f"{FRAMEWORK_PLURAL}/status" in served else _NO_STATUS


class CrdGuard:
    """Looks again when something suggests it, and every minute; a Fence."""

    def __init__(self, client: KubeClient, on_recovery: Callable[[], None]) -> None:
        """Ask through ``client``; ``on_recovery`` is called when the CRD is fit again."""
        self.problem = ""
        self._client = client
        self._on_recovery = on_recovery
        self._suspected = asyncio.Event()

    def may_write(self) -> bool:
        """Return whether statuses can be written as far as is known."""
        return not self.problem

    def suspect(self) -> None:
        """Look again soon: a status write found nothing where an object is."""
        self._suspected.set()

    async def run(self) -> NoReturn:
        """Look again, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS if self.problem else _PERIOD_SECONDS):
                    await self._suspected.wait()
            self._suspected.clear()
            await self._look()

    async def _look(self) -> None:
        try:
            problem = await find_problem(self._client)
        except KubeError as e:
            # An unreachable server says nothing of the CRD; the list-watches report the outage.
            logger.debug("CRD not checked", extra={"error": str(e)})
            return
        before, self.problem = self.problem, _add_remedy(problem) if problem else ""
        if self.problem and self.problem != before:
            logger.error("not acting", extra={"problem": self.problem})
        if before and not self.problem:
            logger.info("the CRD is usable again")
            self._on_recovery()


def _add_remedy(problem: str) -> str:
    remedy = _REMEDY_FOR_UNFIT if problem == _NO_STATUS else _REMEDY
    return f"{problem}: {remedy}"


def _read_names(answer: bytes) -> set[str]:
    """Read the names of an APIResourceList; an unreadable one has none."""
    try:
        wire: Any = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return set()
    resources = wire.get("resources") if isinstance(wire, dict) else None
    return {str(r.get("name")) for r in resources or () if isinstance(r, dict)}
