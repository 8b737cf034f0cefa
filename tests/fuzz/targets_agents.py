"""What the agents in a Pod decode: objects, watch lines, settings, annotations, peers' files."""

from collections.abc import Iterator
from typing import Any

from barrier.config import ConfigError
from barrier.config import load_config as load_barrier_config
from barrier.injector import InjectorError, render_injector
from framework.agent.access import Access, AccessError
from framework.agent.clock import AgentClock
from framework.agent.connection import Head
from framework.agent.dns_source import ExpectedGangError, read_expected
from framework.agent.framework_roster import FrameworkError, build_view, decompress_framework
from framework.agent.gang import Identity
from framework.agent.kubeconfig import load_kubeconfig
from framework.agent.sources import parse_configmap
from framework.agent.watch import ObjectWatch
from framework.api import constants
from framework.api.roster import decode_roster
from framework.api.rostervalues import RosterError
from rendezvous.core import membership
from rendezvous.core.refusal import RefusedError
from rendezvous.renderers import registry
from rendezvous.rsh.frames import (
    FROM_CLIENT,
    Decoder,
    Frame,
    FrameError,
    Kind,
    Request,
    encode_frame,
    encode_request,
    parse_request,
)
from rendezvous.settings.annotations import parse_annotations
from rendezvous.settings.option import OptionsError
from rendezvous.settings.options import parse_options
from rendezvous.site.peers import generations
from tests.fuzz.budget import Target
from tests.fuzz.forms import (
    compress,
    compress_text,
    read_object,
    read_texts,
    to_bytes,
    to_text,
    write_file,
)
from tests.fuzz.targets_controller import CONFIGMAP, FRAMEWORK, KUBECONFIG, PLAIN_ROSTER, STATUS

SETTINGS = {
    "FB_FORMATS": "pytorch,hydra",
    "FB_ROLES": "worker=worker,ps=ps",
    "FB_PORTS": "2222,ps=2223",
    "FB_NNODES": "1:4",
    "FB_TIMEOUT_SEC": "60",
    "FB_NOTIFY_URL": "http://127.0.0.1:8080/x",
    "FB_LISTEN": "127.0.0.1:9000",
    "FB_REACH": "worker=2222",
    "annotation/frameworkbarrier.io/debounce-sec": "3",
}
BARRIER = {
    constants.FRAMEWORK_NAMESPACE: "default",
    constants.FRAMEWORK_NAME: "gang",
    constants.BARRIER_EXPECT_ENV: "ps=1,worker=4",
    constants.BARRIER_REQUIRE_ENV: "ps=running,worker=tcp:2222",
    constants.BARRIER_DNS_NAME_ENV: "{framework}-{role}-{index}.{framework}.{namespace}.svc",
    constants.TASKROLE_NAME: "worker",
    constants.TASK_INDEX: "0",
}
PEERS = {
    "own": {"role": "worker", "index": 0, "rank": 0, "isMember": True},
    "generation": 1,
    "instanceUID": "0_x",
    "phase": "Active",
    "leaving": [],
    "roles": [
        {
            "name": "worker",
            "kind": "worker",
            "completed": [],
            "members": [
                {"index": 0, "rank": 0, "ip": "10.0.0.1", "port": 1, "podUIDFingerprint": "a"}
            ],
        }
    ],
}


class _Stream:
    """Stands for the connection of a watch: one answer, in parts."""

    def __init__(self, data: bytes) -> None:
        self._parts: Iterator[bytes] = iter(
            data[start : start + 16384] for start in range(0, len(data), 16384)
        )
        self.is_over = False

    def start(self, _method: str, _path: str) -> Head:
        return Head(200, {})

    def read_some(self, _timeout_seconds: float) -> bytes:
        part = next(self._parts, b"")
        self.is_over = not part
        return part

    def close(self) -> None:
        self.is_over = True


def _watch(data: bytes) -> object:
    watch = ObjectWatch(Access("127.0.0.1", 1, tls=False), AgentClock(), "/x", "gang-attempt")
    stream = _Stream(data)
    watch._connection = stream  # type: ignore[assignment]  # a fake stream
    changes = []
    while not stream.is_over:
        changes += watch.poll(0.0)
    return changes


def _view_framework(wire: dict[str, Any]) -> object:
    plain = decompress_framework(wire)
    return [build_view(plain, is_attempt_aware=aware) for aware in (True, False)]


def _pack_framework(data: bytes) -> dict[str, Any]:
    attempt = {"id": 0, "taskRoleStatusesCompressed": compress_text(data)}
    return {**FRAMEWORK, "status": {"state": "AttemptRunning", "attemptStatus": attempt}}


def _render(stored: bytes) -> object:
    """Do what a sidecar and a barrier do with a roster."""
    roster = decode_roster(stored)
    rendered = render_injector(roster, "/mnt/x")
    identity = Identity("worker", 0)
    view = membership.build_view(roster, identity, parse_options({}))
    return rendered, registry.render_all(view, parse_options({}))


def _read_settings(texts: dict[str, str]) -> object:
    prefix = "annotation/"
    annotations = {
        name[len(prefix) :]: text for name, text in texts.items() if name.startswith(prefix)
    }
    return parse_options(texts, {}, annotations)


def _read_barrier(texts: dict[str, str]) -> object:
    return load_barrier_config(texts), read_expected(texts)


def _load_kubeconfig(path: str) -> object:
    return load_kubeconfig(path, "")


def _read_frames(data: bytes) -> object:
    """Decode frames from pieces of bytes, then their requests, like the endpoint of commands."""
    decoder = Decoder(FROM_CLIENT)
    frames: list[Frame] = []
    for start in range(0, len(data), 16384):
        frames += decoder.feed(data[start : start + 16384])
    return [parse_request(frame.content) for frame in frames if frame.kind is Kind.REQUEST]


AGENT_TARGETS = (
    Target("agent-configmap", parse_configmap, (to_bytes(CONFIGMAP),), read_object),
    Target(
        "agent-framework",
        _view_framework,
        (to_bytes({**FRAMEWORK, "status": STATUS}),),
        read_object,
        (FrameworkError,),
    ),
    Target(
        "agent-framework-compressed",
        _view_framework,
        (to_bytes(STATUS["attemptStatus"]["taskRoleStatuses"]),),
        _pack_framework,
        (FrameworkError,),
    ),
    Target(
        "agent-render",
        _render,
        (PLAIN_ROSTER,),
        compress,
        (RosterError, InjectorError, RefusedError, OptionsError),
    ),
    Target("agent-watch", _watch, (to_bytes({"type": "ADDED", "object": CONFIGMAP}) + b"\n{}\n",)),
    Target(
        "agent-kubeconfig",
        _load_kubeconfig,
        (to_bytes(KUBECONFIG),),
        write_file,
        (AccessError,),
        max_bytes=65536,
        fixed_inputs=2000,
    ),
    Target(
        "barrier-settings",
        _read_barrier,
        (to_bytes(BARRIER),),
        read_texts,
        (ConfigError, ExpectedGangError),
        max_bytes=131072,
    ),
    Target(
        "rendezvous-settings",
        _read_settings,
        (to_bytes(SETTINGS),),
        read_texts,
        (OptionsError,),
        max_bytes=131072,
    ),
    # What all annotations of an object may have.
    Target(
        "annotations",
        parse_annotations,
        (b'a/b="c\\x41\\n\\"\\u00e4"\nx="y"\n',),
        to_text,
        max_bytes=262144,
        fixed_inputs=3000,
    ),
    # Any process of the Pod may replace the file.
    Target(
        "peers",
        generations.parse,
        (to_bytes(PEERS),),
        read_object,
        (ValueError,),
    ),
    # From holders of the gang key only.
    Target(
        "remote-commands",
        _read_frames,
        (
            encode_request(Request("0_x", "worker", 0, b"echo hello"))
            + encode_frame(Kind.INPUT, b"given")
            + encode_frame(Kind.SIGNAL, b"\x0f")
            + encode_frame(Kind.INPUT_END),
        ),
        expected=(FrameError,),
    ),
)
