"""A tiny scriptable API server over real sockets: the barrier's process tests talk to it.

It knows two objects, one ConfigMap and one Framework, and answers as it is told. Semantics of an
API server are tested elsewhere, on the local cluster's; here faults matter that a good one never
shows.
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
from framework.api.roster import (
    CompletedTask,
    Member,
    Missing,
    Progress,
    RoleRoster,
    Roster,
    encode_progress,
    encode_roster,
    fingerprint_uid,
)

CONFIGMAP_UID = "cm-uid"
INSTANCE_UID = "0_cm-uid"
COMPRESSED_BYTES = 128 * 1024
"""An event that ends the watch in the middle of a chunk."""


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
        progress = Progress(1, 2, (Missing("worker", 1, missing),))
        annotations[constants.PROGRESS_ANNOTATION] = encode_progress(progress)
    body: dict[str, Any] = {
        "metadata": {
            "name": "f-attempt",
            "uid": uid,
            "resourceVersion": str(version),
            "annotations": annotations,
        }
    }
    if roster is not None:
        stored = base64.b64encode(encode_roster(roster)).decode()
        body["binaryData"] = {constants.ROSTER_KEY: stored}
    return body


def make_task(index: int, address: str, **changes: Any) -> dict[str, Any]:
    moment = "2024-01-01T00:00:00Z"
    retries = {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}
    task: dict[str, Any] = {
        "index": index,
        "instanceUID": f"task-{index}",
        "startTime": moment,
        "runTime": None,
        "completionTime": None,
        "state": "AttemptPreparing",
        "transitionTime": moment,
        "deletionPending": False,
        "retryPolicyStatus": retries,
        "attemptStatus": {
            "id": 0,
            "startTime": moment,
            "runTime": None,
            "completionTime": None,
            "instanceUID": f"0_pod-{index}",
            "podName": f"f-worker-{index}",
            "podUID": f"pod-{index}",
            "podNodeName": "n1",
            "podIP": address,
            "podHostIP": "10.0.0.1",
            "completionStatus": None,
        },
    }
    return {**task, **changes}


def make_framework(*tasks: dict[str, Any], number: int | None = None) -> dict[str, Any]:
    tasks = tasks or (make_task(0, "10.0.0.2"), make_task(1, "10.0.0.3"))
    moment = "2024-01-01T00:00:00Z"
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 0}
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": "Framework",
        "metadata": {
            "name": "f",
            "namespace": "default",
            "uid": "fw-uid",
            "resourceVersion": "7",
            "creationTimestamp": moment,
        },
        "spec": {
            "description": "",
            "executionType": "Start",
            "retryPolicy": retry,
            "taskRoles": [
                {
                    "name": "worker",
                    "taskNumber": len(tasks) if number is None else number,
                    "frameworkAttemptCompletionPolicy": policy,
                    "task": {
                        "retryPolicy": retry,
                        "podGracefulDeletionTimeoutSec": None,
                        "pod": {"spec": {"containers": []}},
                    },
                }
            ],
        },
        "status": {
            "startTime": moment,
            "runTime": None,
            "completionTime": None,
            "state": "AttemptRunning",
            "transitionTime": moment,
            "retryPolicyStatus": {
                "totalRetriedCount": 0,
                "accountableRetriedCount": 0,
                "retryDelaySec": None,
            },
            "attemptStatus": {
                "id": 0,
                "startTime": moment,
                "runTime": None,
                "completionTime": None,
                "instanceUID": INSTANCE_UID,
                "configMapName": "f-attempt",
                "configMapUID": CONFIGMAP_UID,
                "completionStatus": None,
                "taskRoleStatuses": [
                    {
                        "name": "worker",
                        "instanceUID": "role",
                        "podGracefulDeletionTimeoutSec": None,
                        "taskStatuses": list(tasks),
                    }
                ],
            },
        },
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
        """Store it with the next version, and tell all watches of Frameworks."""
        with self._framework_changed:
            self._version += 1
            if framework is not None:
                metadata = {**framework["metadata"], "resourceVersion": str(self._version)}
                framework = {**framework, "metadata": metadata}
            self._framework = framework
            self._framework_changed.notify_all()

    def show_framework(self, framework: dict[str, Any]) -> None:
        """Store it byte for byte, with the version it has."""
        with self._framework_changed:
            self._version = int(framework["metadata"]["resourceVersion"])
            self._framework = framework
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
        """Leave the open watches to the events they have; new ones get what is added from now."""
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
            self._answer(401, {"kind": "Status", "message": "Unauthorized", "code": 401})
        elif plural in script.forbidden or (
            "watch=true" in self.path and plural in script.forbidden_watches
        ):
            message = f"{plural} is forbidden"
            self._answer(403, {"kind": "Status", "message": message, "code": 403})
        elif plural == "configmaps":
            with contextlib.suppress(OSError):
                self._watch(script)
        elif "watch=true" in self.path:
            with contextlib.suppress(OSError):
                self._watch_framework(script)
        elif script.framework is None:
            self._answer(404, {"kind": "Status", "message": "not found", "code": 404})
        else:
            self._answer(200, script.framework)

    def do_POST(self) -> None:
        """Answer a SelfSubjectAccessReview."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        plural = review["spec"]["resourceAttributes"]["resource"]
        self.server.script.requests.put(f"review {plural}")
        is_allowed = plural not in self.server.script.forbidden
        self._answer(201, {**review, "status": {"allowed": is_allowed}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        # As the API server does: only what is large, and only for who asks.
        if len(content) > COMPRESSED_BYTES and self.headers["Accept-Encoding"] == "gzip":
            content = gzip.compress(content)
            self.server.script.gzip_answers += 1
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch_framework(self, script: ApiServer) -> None:
        """Tell of the metadata alone, as ``as=PartialObjectMetadata`` asks for."""
        assert "as=PartialObjectMetadata" in self.headers["Accept"]
        self.close_connection = True
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen, kind = 0, "ADDED"
        while (changed := script.wait_for_framework(seen)) is not None:
            seen, framework = changed
            if framework is None:
                kind, metadata = "DELETED", {"name": "f", "resourceVersion": str(seen)}
            else:
                metadata = framework["metadata"]
            self._send_event({"type": kind, "object": {"metadata": metadata}})
            kind = "MODIFIED"
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, event: dict[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def _watch(self, script: ApiServer) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = script.events
        while True:
            event = events.get()
            if event is None:
                self.wfile.write(b"0\r\n\r\n")
                return
            self._send_event(event)


@contextlib.contextmanager
def run_api_server(context: ssl.SSLContext | None = None) -> Iterator[ApiServer]:
    server = ApiServer(context)
    try:
        yield server
    finally:
        server.stop()
