"""A scripted API server over real sockets, with one ConfigMap and one Framework.

The contract suite tests the semantics of an API server; this server shows faults that a good API
server never has.
"""

import base64
import contextlib
import gzip
import json
import queue
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from framework.api import constants
from framework.api.gangreadiness import GangReadiness, Missing, encode_readiness
from framework.api.roster import (
    CompletedTask,
    Member,
    RoleRoster,
    Roster,
    encode_roster,
    fingerprint_uid,
)

CONFIGMAP_UID = "cm-uid"
INSTANCE_UID = "0_cm-uid"
MOMENT = "2024-01-01T00:00:00Z"
TIMES: dict[str, Any] = {"startTime": MOMENT, "runTime": None, "completionTime": None}
RETRIES = {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}
COMPRESSED_BYTES = 128 * 1024


def make_member(index: int, address: str) -> Member:
    return Member(index, (address,), fingerprint_uid(f"pod-{index}"), 0)


def make_role(
    name: str,
    *members: Member,
    completed: tuple[CompletedTask, ...] = (),
    absent: tuple[int, ...] = (),
) -> RoleRoster:
    wanted = len(members) + len(completed)
    return RoleRoster(
        name=name,
        wanted=wanted,
        minimum=wanted,
        running=False,
        members=members,
        completed=completed,
        absent=absent,
    )


def make_roster(**changes: Any) -> Roster:
    members = (make_member(0, "10.0.0.2"), make_member(1, "10.0.0.3"))
    roster = Roster(
        namespace="default",
        framework="f",
        framework_uid="fw-uid",
        attempt_id=0,
        instance_uid=INSTANCE_UID,
        generation=1,
        complete=True,
        phase="Active",
        roles=(make_role("worker", *members),),
        leaving=(),
    )
    return roster._replace(**changes)


def make_configmap(
    roster: Roster | None = None,
    *,
    uid: str = CONFIGMAP_UID,
    version: int = 1,
    carries_roster: bool = True,
    missing: str = "",
) -> dict[str, Any]:
    annotations = {}
    if carries_roster:
        annotations[constants.ROSTER_VERSION_ANNOTATION] = constants.ROSTER_VERSION
    if missing:
        readiness = GangReadiness(1, 2, (Missing("worker", 1, missing),))
        annotations[constants.READINESS_ANNOTATION] = encode_readiness(readiness)
    metadata = {"name": "f-attempt", "uid": uid, "resourceVersion": str(version)}
    body: dict[str, Any] = {"metadata": {**metadata, "annotations": annotations}}
    if roster is not None:
        stored = base64.b64encode(encode_roster(roster)).decode()
        body["binaryData"] = {constants.ROSTER_KEY: stored}
    return body


def make_task(index: int, address: str, **changes: Any) -> dict[str, Any]:
    pod = {"podName": f"f-worker-{index}", "podUID": f"pod-{index}", "podNodeName": "n1"}
    addresses = {"podIP": address, "podHostIP": "10.0.0.1"}
    attempt = {"id": 0, "completionStatus": None, "instanceUID": f"0_pod-{index}"}
    state = {"state": "AttemptPreparing", "transitionTime": MOMENT, "deletionPending": False}
    task: dict[str, Any] = {"index": index, "instanceUID": f"task-{index}"}
    task |= {"retryPolicyStatus": RETRIES, "attemptStatus": TIMES | attempt | pod | addresses}
    return TIMES | task | state | changes


def make_framework(*tasks: dict[str, Any], number: int | None = None) -> dict[str, Any]:
    tasks = tasks or (make_task(0, "10.0.0.2"), make_task(1, "10.0.0.3"))
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 0}
    pod: dict[str, Any] = {"spec": {"containers": []}}
    role = {
        "name": "worker",
        "taskNumber": len(tasks) if number is None else number,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
        "task": {"retryPolicy": retry, "podGracefulDeletionTimeoutSec": None, "pod": pod},
    }
    role_status: dict[str, Any] = {
        "name": "worker",
        "instanceUID": "role",
        "taskStatuses": list(tasks),
    }
    configmap = {"configMapName": "f-attempt", "configMapUID": CONFIGMAP_UID}
    attempt: dict[str, Any] = {"id": 0, "completionStatus": None, "instanceUID": INSTANCE_UID}
    attempt |= {"taskRoleStatuses": [role_status | {"podGracefulDeletionTimeoutSec": None}]}
    metadata = {"name": "f", "namespace": "default", "uid": "fw-uid", "resourceVersion": "7"}
    spec = {"description": "", "executionType": "Start", "retryPolicy": retry, "taskRoles": [role]}
    status = {"state": "AttemptRunning", "transitionTime": MOMENT, "retryPolicyStatus": RETRIES}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": "Framework",
        "metadata": metadata | {"creationTimestamp": MOMENT},
        "spec": spec,
        "status": TIMES | status | {"attemptStatus": TIMES | attempt | configmap},
    }


class ApiServer:
    """The server's script: change the fields at any time, put watch events into ``events``."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._framework: dict[str, Any] | None = make_framework()
        self._framework_changed = threading.Condition()
        self._version = 7
        self._is_stopping = False
        self.events: queue.Queue[Any] = queue.Queue()
        self._old_events: list[queue.Queue[Any]] = []
        self.tokens: set[str] | None = None
        self.forbidden: set[str] = set()
        self.forbidden_watches: set[str] = set()
        self.confirms_denials = True
        self.gzip_answers = 0
        self.requests: queue.Queue[str] = queue.Queue()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.script = self
        self._scheme = "http" if context is None else "https"
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def framework(self) -> dict[str, Any] | None:
        return self._framework

    @framework.setter
    def framework(self, framework: dict[str, Any] | None) -> None:
        """Store it with the next version, and send it to all watches of Frameworks."""
        version = self._version + 1
        if framework is not None:
            metadata = {**framework["metadata"], "resourceVersion": str(version)}
            framework = {**framework, "metadata": metadata}
        self._store_framework(framework, version)

    def show_framework(self, framework: dict[str, Any]) -> None:
        """Store it byte for byte, with the version it has."""
        self._store_framework(framework, int(framework["metadata"]["resourceVersion"]))

    def _store_framework(self, framework: dict[str, Any] | None, version: int) -> None:
        with self._framework_changed:
            self._version, self._framework = version, framework
            self._framework_changed.notify_all()

    def wait_for_framework(self, seen_version: int) -> tuple[int, dict[str, Any] | None] | None:
        """Wait for a form newer than ``seen_version``; None when the server stops."""
        with self._framework_changed:
            self._framework_changed.wait_for(
                lambda: self._version > seen_version or self._is_stopping
            )
            return None if self._is_stopping else (self._version, self._framework)

    def add(self, configmap: dict[str, Any], kind: str = "ADDED") -> None:
        self.events.put({"type": kind, "object": configmap})

    def new_events(self) -> None:
        """Send events from now on only to new watches."""
        self._old_events.append(self.events)
        self.events = queue.Queue()

    def stop(self) -> None:
        for events in (*self._old_events, self.events):
            events.put(None)
        with self._framework_changed:
            self._is_stopping = True
            self._framework_changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    script: ApiServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_args: Any) -> None:
        """Keep the tests' output clean."""

    def do_GET(self) -> None:
        script = self.server.script
        script.requests.put(self.path)
        plural = "frameworks" if "/frameworks" in self.path else "configmaps"
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if script.tokens is not None and token not in script.tokens:
            self._refuse(401, "Unauthorized")
        elif plural in script.forbidden or (
            "watch=true" in self.path and plural in script.forbidden_watches
        ):
            self._refuse(403, f"{plural} is forbidden")
        elif plural == "configmaps":
            self._send_events(iter(script.events.get, None))
        elif "watch=true" in self.path:
            assert "as=PartialObjectMetadata" in self.headers["Accept"]
            self._send_events(_follow_framework(script))
        elif script.framework is None:
            self._refuse(404, "not found")
        else:
            self._answer(200, script.framework)

    def do_POST(self) -> None:
        """Answer a SelfSubjectAccessReview."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        plural = review["spec"]["resourceAttributes"]["resource"]
        self.server.script.requests.put(f"review {plural}")
        script = self.server.script
        is_allowed = plural not in script.forbidden or not script.confirms_denials
        self._answer(201, {**review, "status": {"allowed": is_allowed}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        # As the API server does: only large answers, and only if the client accepts it.
        if len(content) > COMPRESSED_BYTES and self.headers["Accept-Encoding"] == "gzip":
            content = gzip.compress(content)
            self.server.script.gzip_answers += 1
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, {"kind": "Status", "message": message, "code": status})

    def _send_events(self, events: Iterator[dict[str, Any]]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        with contextlib.suppress(OSError):
            self.end_headers()
            for event in events:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")


def _follow_framework(script: ApiServer) -> Iterator[dict[str, Any]]:
    """Yield events with the metadata alone, as ``as=PartialObjectMetadata`` asks for."""
    seen, kind = 0, "ADDED"
    while (changed := script.wait_for_framework(seen)) is not None:
        seen, framework = changed
        if framework is None:
            kind, metadata = "DELETED", {"name": "f", "resourceVersion": str(seen)}
        else:
            metadata = framework["metadata"]
        yield {"type": kind, "object": {"metadata": metadata}}
        kind = "MODIFIED"


@contextlib.contextmanager
def run_api_server(context: ssl.SSLContext | None = None) -> Iterator[ApiServer]:
    server = ApiServer(context)
    try:
        yield server
    finally:
        server.stop()
