"""Writes one Pod's status to the API server, the newest only.

Changes that come during a write are written together after it; a failed write is repeated with the
newest status.
"""

import asyncio
import logging

from framework.kube.backoff import Backoff
from framework.kube.client import KubeClient
from framework.kube.errors import (
    BadRequestError,
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from framework.kube.resources import PODS, Object

logger = logging.getLogger(__name__)


class StatusChannel:
    """The newest status not yet written, and the task that writes it."""

    def __init__(self, client: KubeClient, pod: Object) -> None:
        """Write for this Pod, and never for a later one of its name."""
        self._client = client
        self._metadata = pod["metadata"]
        self._newest: Object | None = None
        self._submitted = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self.is_gone = False

    def submit(self, status: Object) -> None:
        """Queue a status; it replaces a status that is not yet written."""
        self._newest = status
        if not self.is_gone:
            self._settled.clear()
            self._submitted.set()

    async def flush(self) -> None:
        """Wait until the newest status is written, or the Pod is gone."""
        await self._settled.wait()

    async def run(self) -> None:
        """Write until cancelled, or until the Pod is gone."""
        backoff = Backoff()
        while not self.is_gone:
            await self._submitted.wait()
            self._submitted.clear()
            status = self._newest
            if status is None:
                continue
            try:
                await self._write(status)
            except KubeError as e:
                logger.warning("Pod status not written", extra=self._describe(error=str(e)))
                self._submitted.set()
                await asyncio.sleep(backoff.next_bound_seconds())
                continue
            backoff.reset()
            if self._newest is status:
                self._settled.set()

    async def _write(self, status: Object) -> None:
        patch = {"metadata": {"uid": self._metadata["uid"]}, "status": status}
        try:
            await self._client.patch(
                PODS,
                self._metadata["namespace"],
                self._metadata["name"],
                patch,
                subresource="status",
            )
        except (BadRequestError, InvalidError) as e:
            # The server will never accept this status; the next one may be valid.
            logger.error("Pod status refused", extra=self._describe(error=str(e)))
        except (NotFoundError, ConflictError) as e:
            # The only precondition is the UID: the Pod is gone, and another Pod may have its name.
            logger.debug("Pod gone, status dropped", extra=self._describe(error=str(e)))
            self.is_gone = True
            self._settled.set()

    def _describe(self, **fields: object) -> dict[str, object]:
        return {"pod": f"{self._metadata['namespace']}/{self._metadata['name']}", **fields}
