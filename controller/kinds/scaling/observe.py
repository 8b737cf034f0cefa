"""Observes the launcher of a TrainingJob: its Pod, and the request in the attempt's ConfigMap.

Both are read from the API server, and only while a scaler has not ended. An object counts as absent
if the Framework names another UID.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.api import constants
from framework.api.scalerequest import (
    ScaleRequestError,
    ScaleResult,
    decode_request,
    decode_result,
)
from framework.api.types import Framework
from framework.kinds.observing import is_running, list_tasks
from framework.kinds.scaling.snapshot import LauncherFacts
from framework.kinds.trainingjob.types import LAUNCHER
from framework.kube.client import KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.resources import CONFIGMAPS, PODS, Object, Resource

_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class _Request:
    """The request in a version of the attempt's ConfigMap."""

    version: tuple[object, object]
    """UID and resourceVersion."""
    scaler_uid: str
    """UID of the scaler; "" for none."""


class LauncherObserver:
    """Reads the requests to the agents of launchers, and their answers."""

    def __init__(self, client: KubeClient) -> None:
        """Read through ``client``."""
        self._client = client
        # By the key of the job. A ConfigMap also has the roster, so it is large to read.
        self._requests: dict[str, _Request] = {}

    def forget(self, key: str) -> None:
        """Forget the request of a job without scalers."""
        self._requests.pop(key, None)

    async def observe(self, key: str, framework: Framework | None) -> LauncherFacts:
        """Read the facts of a job's launcher.

        Raises:
            KubeError: a request failed.
        """
        if framework is None or framework.status is None or not framework.metadata.namespace:
            return LauncherFacts()
        namespace, attempt = framework.metadata.namespace, framework.status.attempt_status
        request_uid = ""
        if attempt.configmap_uid and attempt.configmap_name:
            request_uid = await self._read_request(
                key, namespace, attempt.configmap_name, attempt.configmap_uid
            )
        launchers = [task for task in list_tasks(framework, LAUNCHER) if is_running(task)]
        pod = launchers[0].attempt_status if launchers else None
        if pod is None or not pod.pod_uid:
            return LauncherFacts(request_uid=request_uid)
        found = await self._find(PODS, namespace, pod.pod_name)
        if found is None or found["metadata"].get("uid") != pod.pod_uid:
            return LauncherFacts(request_uid=request_uid)
        annotations = found["metadata"].get("annotations") or {}
        return LauncherFacts(
            pod_uid=pod.pod_uid,
            has_agent=bool(annotations.get(constants.ACKNOWLEDGED_GENERATION_ANNOTATION)),
            request_uid=request_uid,
            result=_read_result(annotations),
        )

    async def _read_request(self, key: str, namespace: str, name: str, uid: str) -> str:
        """Read the UID of the scaler that the attempt's ConfigMap has; "" for none.

        If this version was read before, only the metadata is requested.
        """
        found = await self._find(CONFIGMAPS, namespace, name)
        if found is None or found["metadata"].get("uid") != uid:
            return ""
        known = self._requests.get(key)
        if known is not None and known.version == _read_version(found):
            return known.scaler_uid
        try:
            whole: Object = await self._client.get(CONFIGMAPS, namespace, name)
        except NotFoundError:
            return ""
        if whole["metadata"].get("uid") != uid:
            return ""
        request = _Request(_read_version(whole), _read_scaler_uid(whole))
        self._requests[key] = request
        return request.scaler_uid

    async def _find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Request the metadata of an object."""
        try:
            return await self._client.get_metadata(resource, namespace, name)
        except NotFoundError:
            return None


def _read_version(body: Object) -> tuple[object, object]:
    return body["metadata"].get("uid"), body["metadata"].get("resourceVersion")


def _read_scaler_uid(configmap: Object) -> str:
    text = (configmap.get("binaryData") or {}).get(constants.SCALER_KEY)
    if text is None:
        return ""
    try:
        return decode_request(text).uid
    except ScaleRequestError:
        return _UNREADABLE  # another client wrote it: it is cleared


def _read_result(annotations: Mapping[str, Any]) -> ScaleResult | None:
    text = annotations.get(constants.SCALER_RESULT_ANNOTATION)
    if not isinstance(text, str):
        return None
    try:
        return decode_result(text)
    except ScaleRequestError:
        return None
