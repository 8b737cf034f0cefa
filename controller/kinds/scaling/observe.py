"""Observes the launcher of a TrainingJob: its Pod, and the request in the attempt's ConfigMap.

Both are read from the API server, and only while a scaler has not ended. An object with another UID
than the Framework names counts as absent.
"""

from collections.abc import Mapping
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
from framework.kube.resources import CONFIGMAPS, PODS, Object

_UNREADABLE = "unreadable"


async def observe_launcher(client: KubeClient, framework: Framework | None) -> LauncherFacts:
    """Read what the launcher's agent was asked, and what it has answered.

    Raises:
        KubeError: a request failed.
    """
    if framework is None or framework.status is None or not framework.metadata.namespace:
        return LauncherFacts()
    namespace, attempt = framework.metadata.namespace, framework.status.attempt_status
    request_uid = ""
    if attempt.configmap_uid and attempt.configmap_name:
        request_uid = await _read_request(
            client, namespace, attempt.configmap_name, attempt.configmap_uid
        )
    launchers = [task for task in list_tasks(framework, LAUNCHER) if is_running(task)]
    pod = launchers[0].attempt_status if launchers else None
    if pod is None or not pod.pod_uid:
        return LauncherFacts(request_uid=request_uid)
    try:
        found = await client.get_metadata(PODS, namespace, pod.pod_name)
    except NotFoundError:
        return LauncherFacts(request_uid=request_uid)
    if found["metadata"].get("uid") != pod.pod_uid:
        return LauncherFacts(request_uid=request_uid)
    annotations = found["metadata"].get("annotations") or {}
    return LauncherFacts(
        pod_uid=pod.pod_uid,
        has_agent=bool(annotations.get(constants.ACKNOWLEDGED_GENERATION_ANNOTATION)),
        request_uid=request_uid,
        result=_read_result(annotations),
    )


async def _read_request(client: KubeClient, namespace: str, name: str, uid: str) -> str:
    """Read the UID of the scaler that the attempt's ConfigMap has; "" for none."""
    try:
        found: Object = await client.get(CONFIGMAPS, namespace, name)
    except NotFoundError:
        return ""
    text = (found.get("binaryData") or {}).get(constants.SCALER_KEY)
    if found["metadata"].get("uid") != uid or text is None:
        return ""
    try:
        return decode_request(text).uid
    except ScaleRequestError:
        return _UNREADABLE  # of another client: it is cleared


def _read_result(annotations: Mapping[str, Any]) -> ScaleResult | None:
    text = annotations.get(constants.SCALER_RESULT_ANNOTATION)
    if not isinstance(text, str):
        return None
    try:
        return decode_result(text)
    except ScaleRequestError:
        return None
