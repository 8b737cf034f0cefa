"""The two sources of the API server: the attempt ConfigMap and the Framework.

A source keeps the newest object and its health; ``gang`` decides which source is used.
"""

import contextlib
import json
from typing import Any, Dict, NamedTuple, Optional

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.connection import Connection, UnreachableError
from framework.agent.framework_roster import (
    FrameworkError,
    FrameworkView,
    build_view,
    decompress_framework,
)
from framework.agent.health import HEALTH_BY_STATUS, Health, SourceState, update_state
from framework.agent.watch import METADATA_ONLY, ObjectWatch
from framework.api import constants
from framework.api.gangreadiness import GangReadiness, decode_readiness
from framework.api.roster import Roster, decode_stored_roster
from framework.api.rostervalues import RosterError

_OK = 200


class AttemptConfigMap(NamedTuple):
    """The decoded attempt ConfigMap."""

    uid: str
    """Its UID."""
    is_terminating: bool
    """Whether it has a deletionTimestamp: the attempt is ending."""
    carries_roster: bool
    """Whether it has the annotation of controllers that publish a roster."""
    roster: Optional[Roster]
    """The roster; None if there is none, or it is invalid."""
    readiness: Optional[GangReadiness]
    """The readiness annotation; None if there is none, or it is invalid."""
    problem: str
    """Why a stored roster is not used; "" if there is none or it is valid."""
    scaler: str = ""
    """The stored request of a scaler, not decoded; "" if there is none."""


def parse_configmap(
    body: Dict[str, Any], own_uid: str = "", framework: str = ""
) -> AttemptConfigMap:
    """Decode the attempt ConfigMap. Invalid annotations count as absent.

    With ``own_uid``, roster and readiness of a ConfigMap with another UID are not decoded. With
    ``framework``, a roster is a problem if another object is the controlling owner.
    """
    metadata = _read_object(body, "metadata")
    annotations = _read_object(metadata, "annotations")
    roster, readiness, problem = None, None, ""
    uid = str(metadata.get("uid") or "")
    is_own = own_uid in {"", uid}
    binary = _read_object(body, "binaryData")
    stored, scaler = binary.get(constants.ROSTER_KEY), binary.get(constants.SCALER_KEY)
    owner = _find_controller(metadata.get("ownerReferences"))
    if framework and owner not in {"", f"{constants.FRAMEWORK_KIND}/{framework}"}:
        problem = f"{owner:.160} controls its ConfigMap, not the Framework {framework}"
    elif is_own and stored is not None:
        try:
            roster = decode_stored_roster(stored)
        except RosterError as e:
            problem = str(e)
    if is_own and constants.READINESS_ANNOTATION in annotations:
        try:
            readiness = decode_readiness(str(annotations[constants.READINESS_ANNOTATION]))
        except RosterError:
            readiness = None
    return AttemptConfigMap(
        uid=uid,
        is_terminating=metadata.get("deletionTimestamp") is not None,
        carries_roster=constants.ROSTER_VERSION_ANNOTATION in annotations,
        roster=roster,
        readiness=readiness,
        problem=problem,
        scaler=scaler if is_own and not problem and isinstance(scaler, str) else "",
    )


def _find_controller(references: Any) -> str:
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller"):
            return f"{reference.get('kind')}/{reference.get('name')}"
    return ""


def _read_object(parent: Dict[str, Any], key: str) -> Dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


class ConfigMapSource:
    """Watches the attempt ConfigMap by name."""

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        namespace: str,
        name: str,
        uid: str = "",
        framework: str = "",
    ) -> None:
        """Watch the ConfigMap ``name``; ``uid`` and ``framework`` as in ``parse_configmap``."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._watch = ObjectWatch(access, clock, path, name)
        self._clock = clock
        self._expected = (uid, framework)
        self._version = 0
        self.configmap: Optional[AttemptConfigMap] = None
        self.state = SourceState(Health.STARTING, clock.monotonic(), "")

    def poll(self, timeout_seconds: float) -> None:
        """Receive changes for at most about ``timeout_seconds``."""
        for change in self._watch.poll(timeout_seconds):
            if change.body is None:
                self.configmap, self._version = None, 0
            elif not self._is_older(change.body):
                self.configmap = parse_configmap(change.body, *self._expected)
        self.state = update_state(
            self.state, self._watch.health, self._watch.message, self._clock.monotonic()
        )

    def get_descriptor(self) -> int:
        """Return the file descriptor for ``select``; -1 while there is no stream."""
        return self._watch.get_descriptor()

    def get_idle_seconds(self) -> float:
        """Return for how many seconds ``poll`` has nothing to do if no bytes arrive."""
        return self._watch.get_idle_seconds()

    def close(self) -> None:
        """Close the watch."""
        self._watch.close()

    def _is_older(self, body: Dict[str, Any]) -> bool:
        """Return whether the object is older than the known one, from a cache that lags."""
        metadata = body.get("metadata") or {}
        text = str(metadata.get("resourceVersion") or "")
        version = int(text) if text.isdigit() else 0
        is_same = self.configmap is not None and self.configmap.uid == metadata.get("uid")
        if is_same and 0 < version < self._version:
            return True
        self._version = version
        return False


class FrameworkSource:
    """Reads the Framework on demand; a watch of its metadata detects changes."""

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        namespace: str,
        name: str,
        *,
        is_attempt_aware: bool,
    ) -> None:
        """Prepare to read the Framework ``name``; ``is_attempt_aware`` as in ``build_view``."""
        self._connection = Connection(access, clock, takes_gzip=True)
        self._clock = clock
        collection = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/" + (
            constants.FRAMEWORK_PLURAL
        )
        self._watch = ObjectWatch(access, clock, collection, name, accept=METADATA_ONLY)
        self._path = f"{collection}/{name}"
        self._is_attempt_aware = is_attempt_aware
        self._watched_version = ""
        self._read_version = ""
        self.framework: Optional[Dict[str, Any]] = None
        self.view: Optional[FrameworkView] = None
        self.retry_after_seconds = 0.0
        self.state = SourceState(Health.STARTING, clock.monotonic(), "")

    def poll(self, timeout_seconds: float) -> None:
        """Wait at most about ``timeout_seconds`` for a change of the Framework."""
        for change in self._watch.poll(timeout_seconds):
            version = (change.body or {}).get("metadata", {}).get("resourceVersion")
            self._watched_version = str(version or "deleted")

    @property
    def watch_health(self) -> Health:
        """The health of the watch; ``state`` is the health of reads."""
        return self._watch.health

    @property
    def has_newer_version(self) -> bool:
        """Return whether the watch has seen a newer version than the last read."""
        watched, read = self._watched_version, self._read_version
        if watched.isdigit() and read.isdigit():
            return int(watched) > int(read)
        return watched not in {"", read}

    def get_descriptor(self) -> int:
        """Return the file descriptor for ``select``; -1 while there is no stream."""
        return self._watch.get_descriptor()

    def get_idle_seconds(self) -> float:
        """Return for how many seconds ``poll`` has nothing to do if no bytes arrive."""
        return self._watch.get_idle_seconds()

    def prepare(self) -> None:
        """Connect for the next read. A failure is ignored; the read connects again."""
        with contextlib.suppress(UnreachableError):
            self._connection.open()

    def read(self, *, is_cached: bool = True) -> None:
        """Read it once: from the server's cache, at least as new as the watch, or from etcd.

        The previous result is removed if the Framework is not found, and kept on other failures.
        """
        # A server that lags behind the watched version refuses the read. Then the health is not
        # HEALTHY, and the next read asks for "0": any version in the cache.
        is_version_known = self.state.health is Health.HEALTHY and self._watched_version.isdigit()
        version = self._watched_version if is_version_known else "0"
        query = f"?resourceVersion={version}" if is_cached else ""
        self.retry_after_seconds = 0.0
        health, message = Health.UNREACHABLE, ""
        try:
            answer = self._connection.fetch("GET", self._path + query)
            if answer.head.status == _OK:
                self._decode(answer.body)
                health = Health.HEALTHY
            else:
                health = HEALTH_BY_STATUS.get(answer.head.status, Health.UNREACHABLE)
                message = answer.describe()
                self.retry_after_seconds = answer.head.retry_after_seconds or 0.0
        except (UnreachableError, FrameworkError) as e:
            message = str(e)
        if health is Health.NOT_FOUND:
            self.framework = self.view = None
        if health is Health.UNAUTHORIZED:
            self._connection.close()  # the next request reads the token again
        self.state = update_state(self.state, health, message, self._clock.monotonic())

    def stop_watching(self) -> None:
        """Close the watch; the next ``poll`` opens it again."""
        self._watch.close()

    def close(self) -> None:
        """Close both connections."""
        self._watch.close()
        self._connection.close()

    def _decode(self, body: bytes) -> None:
        try:
            parsed = json.loads(body.decode())
        except (ValueError, RecursionError) as e:
            raise FrameworkError(f"the answer is not JSON: {e}") from e
        if not isinstance(parsed, dict):
            raise FrameworkError("the answer is not a JSON object")
        framework = decompress_framework(parsed)
        self._read_version = str(_read_object(parsed, "metadata").get("resourceVersion") or "")
        self.view = build_view(framework, is_attempt_aware=self._is_attempt_aware)
        self.framework = framework
