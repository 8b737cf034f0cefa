"""What the local cluster decodes: bodies, patches, selectors, DNS messages."""

import asyncio

from localcluster.apiserver.bodies.patches import STRATEGIC_MERGE_PATCH, apply_patch
from localcluster.apiserver.bodies.wire import DecodeError, Decoder
from localcluster.apiserver.engine.selectors import parse_label_selector
from localcluster.apiserver.front.payloads import decode_object, decode_patch
from localcluster.apiserver.model import builtins
from localcluster.apiserver.model.errors import StatusError
from localcluster.network.cluster_names import ClusterNames
from localcluster.network.name_server import NameServer
from tests.fuzz.budget import Target
from tests.fuzz.forms import to_bytes, to_text
from tests.fuzz.targets_controller import CONFIGMAP, PODS

_SERVER = NameServer(ClusterNames(), [])
QUERY = bytes.fromhex("123401000001000000000000") + b"\x04gang\x07default\x03svc\x07cluster"
QUERY += b"\x05local\x00\x00\x01\x00\x01"
PATCH = {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}, "metadata": None}


def _decode_json(body: bytes) -> object:
    return Decoder().decode("Pod", decode_object(body, "application/json", "Pod"))


def _patch(body: bytes) -> object:
    return apply_patch(builtins.PODS, PODS[0], decode_patch(body), STRATEGIC_MERGE_PATCH)


def _select(text: str) -> object:
    return parse_label_selector(text)


def _ask(raw: bytes) -> object:
    return asyncio.run(_SERVER.answer(raw, is_datagram=True))


LOCAL_TARGETS = (
    Target(
        "body-json",
        _decode_json,
        tuple(to_bytes(body) for body in (*PODS, CONFIGMAP)),
        expected=(StatusError, DecodeError),
    ),
    Target("body-patch", _patch, (to_bytes(PATCH), to_bytes(PODS[0])), expected=(StatusError,)),
    Target(
        "selector",
        _select,
        (b"a=b,c!=d,e in (f,g),!h,i notin (j)",),
        to_text,
        (StatusError,),
        max_bytes=65536,
        fixed_inputs=2000,
    ),
    Target("dns-query", _ask, (QUERY,), max_bytes=65535),
)
