"""Lists of objects whose values take many times the memory of their JSON, against a controller.

The server of these tests answers with bytes that were built before: an API server in Python would
need the memory that the controller is not to need.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from framework.api import constants
from framework.kube.pages import MAX_PAGE_BYTES
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Resource
from tests.support.builders import build_submission
from tests.support.machine.processes import read_peak_bytes
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import launch_controller
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
MIB = 2**20
COUNT = 11
OBJECT_BYTES = 1_400_000
# What a controller that has little to do takes, with room for what differs between machines, the
# bytes of three pages, and one object of 1.4 MB as Python objects.
MOST_BYTES = (200 + 3 * 18 + 56) * MIB

ARRAYS = b"[" + b",".join([b"[]"] * (OBJECT_BYTES // 3)) + b"]"
OBJECTS = b"[" + b",".join([b"{}"] * (OBJECT_BYTES // 3)) + b"]"
# The decoder of JSON refuses what is nested as deep as this.
DEEP = b'{"f:a":' * 5000 + b"{}" + b"}" * 5000
DISCOVERY = f"/apis/{constants.API_VERSION}"


def build_managed(name: str) -> dict[str, Any]:
    """Build a Pod, or a ConfigMap: the controller reads nothing that only a Pod has."""
    managed = {"manager": "a", "fieldsType": "FieldsV1", "fieldsV1": "@arrays"}
    return {"metadata": {"labels": {constants.FRAMEWORK_NAME: name}, "managedFields": [managed]}}


def build_tolerant(name: str) -> dict[str, Any]:
    metadata = {"labels": {constants.FRAMEWORK_NAME: name}}
    return {"metadata": metadata, "spec": {"tolerations": "@objects"}}


def build_framework(name: str) -> dict[str, Any]:
    framework = build_submission(name)
    framework["spec"]["taskRoles"] = "@arrays"
    return framework


def encode(resource: Resource, number: int) -> bytes:
    """Build an object; the first one of each list is nested too deep."""
    name = f"hostile-{number}"
    match resource:
        case _ if resource is FRAMEWORKS:
            wire = build_framework(name)
        case _ if resource is PODS and number % 2:
            wire = build_tolerant(name)
        case _:
            wire = build_managed(name)
    identity = {"name": name, "namespace": "tenant", "uid": name, "resourceVersion": str(number)}
    wire["metadata"] |= identity
    if number == 0:
        wire["extra"] = "@deep"
    raw = json.dumps(wire).encode()
    values = {b'"@arrays"': ARRAYS, b'"@objects"': OBJECTS, b'"@deep"': DEEP}
    for placeholder, value in values.items():
        raw = raw.replace(placeholder, value)
    return raw


class HostileServer(ThreadingHTTPServer):
    """Serves the same objects for ever, and counts which Frameworks got a status."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.items = {
            resource.path(): [encode(resource, number) for number in range(COUNT)]
            for resource in (PODS, CONFIGMAPS, FRAMEWORKS)
        }
        self.written: set[str] = set()
        self.is_closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: HostileServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        collection, _, name = url.path.partition("/namespaces/tenant")
        items = self.server.items.get(url.path)
        if "watch" in query:
            self.send_response(200)
            self.end_headers()
            self.server.is_closing.wait(int(query["timeoutSeconds"]))
        elif items is not None:
            self.answer(200, self.build_page(items, query))
        elif url.path == DISCOVERY:
            self.answer(200, build_discovery())
        elif name:
            self.answer(200, self.find(f"{collection}/frameworks", name))
        else:
            self.answer(404, b"{}")

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        collection, _, name = self.path.partition("/namespaces/tenant")
        self.answer(200, self.find(f"{collection}/frameworks", name))
        self.server.written.add(name)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(403, b'{"kind":"Status","reason":"Forbidden"}')

    def build_page(self, items: list[bytes], query: dict[str, str]) -> bytes:
        start = int(query.get("continue", "0"))
        end = start + int(query.get("limit", len(items)))
        metadata = {"resourceVersion": "1000"}
        if end < len(items):
            metadata["continue"] = str(end)
        page = b",".join(items[start:end])
        return b'{"metadata":%b,"items":[%b]}' % (json.dumps(metadata).encode(), page)

    def find(self, path: str, name: str) -> bytes:
        number = int(name.removesuffix("/status").rpartition("-")[2])
        return self.server.items[path][number]

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # The controller does not read a page to its end that is too large.
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def build_discovery() -> bytes:
    names = ("frameworks", "frameworks/status")
    listed = [
        {"name": name, "kind": "Framework", "namespaced": True, "verbs": []} for name in names
    ]
    body = {"kind": "APIResourceList", "groupVersion": constants.API_VERSION, "resources": listed}
    return json.dumps(body).encode()


@pytest.fixture
def server() -> Iterator[HostileServer]:
    server = HostileServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.is_closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def write_access(server: HostileServer, path: Path) -> Access:
    named = {
        "clusters": [{"name": "a", "cluster": {"server": server.url}}],
        "users": [{"name": "a", "user": {"token": "none"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    path.write_text(json.dumps({"kind": "Config", "current-context": "a", **named}))
    return Access(server.url, "none", ca_file=None, kubeconfig=str(path), kubectl=None)


def test_start_with_three_hostile_lists_takes_little_memory(
    server: HostileServer, tmp_path: Path
) -> None:
    for items in server.items.values():
        assert sum(map(len, items)) < MAX_PAGE_BYTES, "else no list would come in one page"
    controller = launch_controller(write_access(server, tmp_path / "kubeconfig"), tmp_path)
    try:

        def is_each_blocked() -> bool:
            controller.raise_if_ended()
            return len(server.written) == COUNT

        wait_until(is_each_blocked, controller.tail)
        assert read_peak_bytes(controller.pid) < MOST_BYTES
    finally:
        controller.terminate()
