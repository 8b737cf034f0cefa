"""Where an agent reads its gang: the attempt ConfigMap, else the Framework itself.

Called by the barrier's loop and the rendezvous agent. A source keeps the newest it has read and
how it fares; what that means for the agent is decided there.
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
from framework.agent.health import HEALTH_BY_STATUS, Health, SourceState, advance
from framework.agent.watch import METADATA_ONLY, ObjectWatch
from framework.api import constants
from framework.api.roster import (
    Progress,
    Roster,
    RosterError,
    decode_progress,
    decode_stored_roster,
)

_OK = 200


class AttemptConfigMap(NamedTuple):
    """What the attempt's ConfigMap says. ``problem`` tells why a stored roster is unreadable."""

    uid: str
    is_terminating: bool
    carries_roster: bool
    roster: Optional[Roster]
    progress: Optional[Progress]
    problem: str


def parse_configmap(
    body: Dict[str, Any], own_uid: str = "", framework: str = ""
) -> AttemptConfigMap:
    """Read the attempt's ConfigMap; broken annotations count as absent, a broken roster is told.

    Where ``own_uid`` and ``framework`` are known, one with another UID is not decoded, and a roster
    in one that another object controls counts as unreadable.
    """
    metadata = _read_object(body, "metadata")
    annotations = _read_object(metadata, "annotations")
    roster, progress, problem = None, None, ""
    uid = str(metadata.get("uid") or "")
    is_own = own_uid in {"", uid}
    stored = _read_object(body, "binaryData").get(constants.ROSTER_KEY)
    owner = _find_controller(metadata.get("ownerReferences"))
    if framework and owner not in {"", f"{constants.FRAMEWORK_KIND}/{framework}"}:
        problem = f"{owner:.160} controls its ConfigMap, not the Framework {framework}"
    elif is_own and stored is not None:
        try:
            roster = decode_stored_roster(stored)
        except RosterError as e:
            problem = str(e)
    if is_own and constants.PROGRESS_ANNOTATION in annotations:
        try:
            progress = decode_progress(str(annotations[constants.PROGRESS_ANNOTATION]))
        except RosterError:
            progress = None
    return AttemptConfigMap(
        uid=uid,
        is_terminating=metadata.get("deletionTimestamp") is not None,
        carries_roster=constants.ROSTER_VERSION_ANNOTATION in annotations,
        roster=roster,
        progress=progress,
        problem=problem,
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
    """The attempt's ConfigMap, watched by name."""

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        namespace: str,
        name: str,
        uid: str = "",
        framework: str = "",
    ) -> None:
        """Watch the ConfigMap ``name``; ``uid`` and ``framework`` are as for the parser."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._watch = ObjectWatch(access, clock, path, name)
        self._clock = clock
        self._expected = (uid, framework)
        self._version = 0
        self.configmap: Optional[AttemptConfigMap] = None
        self.state = SourceState(Health.STARTING, clock.monotonic(), "")

    def poll(self, timeout_seconds: float) -> None:
        """Wait for news at most about ``timeout_seconds``, and take in what came."""
        for change in self._watch.poll(timeout_seconds):
            if change.body is None:
                self.configmap, self._version = None, 0
            elif not self._is_older(change.body):
                self.configmap = parse_configmap(change.body, *self._expected)
        self.state = advance(
            self.state, self._watch.health, self._watch.message, self._clock.monotonic()
        )

    def get_file_number(self) -> int:
        """Return what ``select`` waits on; -1 if there is nothing."""
        return self._watch.get_file_number()

    def get_idle_seconds(self) -> float:
        """Return how long ``poll`` need not be called if nothing arrives."""
        return self._watch.get_idle_seconds()

    def close(self) -> None:
        """Close the watch."""
        self._watch.close()

    def _is_older(self, body: Dict[str, Any]) -> bool:
        """Return whether a lagging server's cache shows a form older than the one known."""
        metadata = body.get("metadata") or {}
        text = str(metadata.get("resourceVersion") or "")
        version = int(text) if text.isdigit() else 0
        is_same = self.configmap is not None and self.configmap.uid == metadata.get("uid")
        if is_same and 0 < version < self._version:
            return True
        self._version = version
        return False


class FrameworkSource:
    """The Framework, read on demand; a watch of its metadata alone tells when that is worth it."""

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        namespace: str,
        name: str,
        *,
        is_attempt_aware: bool,
    ) -> None:
        """Read the Framework ``name``; ``is_attempt_aware`` as ``build_view`` takes it."""
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
        """Wait at most about ``timeout_seconds`` for word that the Framework changed."""
        for change in self._watch.poll(timeout_seconds):
            version = (change.body or {}).get("metadata", {}).get("resourceVersion")
            self._watched_version = str(version or "deleted")

    @property
    def watch_health(self) -> Health:
        """How the watch fares; ``state`` is about reading."""
        return self._watch.health

    @property
    def has_newer_version(self) -> bool:
        """Return whether the watch told of a newer form than the one read last."""
        watched, read = self._watched_version, self._read_version
        if watched.isdigit() and read.isdigit():
            return int(watched) > int(read)
        return watched not in {"", read}

    def get_file_number(self) -> int:
        """Return what ``select`` waits on; -1 if there is nothing."""
        return self._watch.get_file_number()

    def get_idle_seconds(self) -> float:
        """Return how long ``poll`` need not be called if nothing arrives."""
        return self._watch.get_idle_seconds()

    def prepare(self) -> None:
        """Connect ahead of the next read; whether that worked is seen then."""
        with contextlib.suppress(UnreachableError):
            self._connection.open()

    def read(self, *, is_cached: bool = True) -> None:
        """Read it once: from the server's cache (as new as the watch told), or the newest form.

        What was read before is forgotten when the object is gone, and kept on other failures.
        """
        # A server behind the one watched refuses the version told: then whatever it has.
        is_asked_for = self.state.health is Health.HEALTHY and self._watched_version.isdigit()
        version = self._watched_version if is_asked_for else "0"
        query = f"?resourceVersion={version}" if is_cached else ""
        self.retry_after_seconds = 0.0
        health, message = Health.UNREACHABLE, ""
        try:
            answer = self._connection.fetch("GET", self._path + query)
            if answer.head.status == _OK:
                self._take(answer.body)
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
            self._connection.close()  # the next one reads the token anew
        self.state = advance(self.state, health, message, self._clock.monotonic())

    def stop_watching(self) -> None:
        """Close the watch, which is opened again when it is polled."""
        self._watch.close()

    def close(self) -> None:
        """Close both connections."""
        self._watch.close()
        self._connection.close()

    def _take(self, body: bytes) -> None:
        try:
            parsed = json.loads(body.decode())
        except (ValueError, RecursionError) as e:
            raise FrameworkError(f"the answer is no JSON: {e}") from e
        if not isinstance(parsed, dict):
            raise FrameworkError("the answer is no JSON object")
        framework = decompress_framework(parsed)
        self._read_version = str(_read_object(parsed, "metadata").get("resourceVersion") or "")
        self.view = build_view(framework, is_attempt_aware=self._is_attempt_aware)
        self.framework = framework
