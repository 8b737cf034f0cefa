"""Decides which Services of a job are created, put back and deleted. Pure.

A Service is compared by its form: the fields of its spec that the compile step sets, with the
defaults of the API server. A Service of another form, which another client changed or an earlier
release created, is put back by one patch. No patch can make a Service with an address headless, or
a headless one not: such a Service is deleted, and created again when it is gone. Services that the
job does not own are not in the Snapshot.

A decision has at most 256 actions of each type; the next decision has the others.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from controller.kinds.decide.decision import Create, Delete, Patch, ServiceView
from framework.kinds.compiled import Object

SERVICE = "Service"
# Most Services in one decision, so that a job of ten thousand replicas does not delay the others.
_MAX_SERVICES = 256
_FORM_BYTES = 12
_HEADLESS = "None"


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The actions for the Services of a job."""

    creates: tuple[Create, ...] = ()
    """Creates of Services that do not exist."""
    patches: tuple[Patch, ...] = ()
    """Patches of Services with another form."""
    recreations: tuple[Delete, ...] = ()
    """Deletes of Services that are wanted in another form, which no patch can give them."""
    deletes: tuple[Delete, ...] = ()
    """Deletes of Services that are not wanted any more."""
    has_more: bool = False
    """Whether Services are left for the next decision."""


def plan_services(wanted: Iterable[Object], stored: Mapping[str, ServiceView]) -> ServicePlan:
    """Compare the Services that a job wants with those that it owns."""
    bodies = {str(body["metadata"]["name"]): body for body in wanted}
    creates = [Create(body) for name, body in bodies.items() if name not in stored]
    changed = [
        (name, stored[name], body)
        for name, body in bodies.items()
        if name in stored and stored[name].form != compute_form(body)
    ]
    recreations = [Delete(SERVICE, name, v.uid) for name, v, body in changed if _is_fixed(v, body)]
    patches = [_build_patch(*each) for each in changed if not _is_fixed(*each[1:])]
    deletes = [Delete(SERVICE, name, v.uid) for name, v in stored.items() if name not in bodies]
    return ServicePlan(
        tuple(islice(creates, _MAX_SERVICES)),
        tuple(islice(patches, _MAX_SERVICES)),
        tuple(islice(recreations, _MAX_SERVICES)),
        tuple(islice(deletes, _MAX_SERVICES)),
        max(len(creates), len(patches), len(recreations), len(deletes)) > _MAX_SERVICES,
    )


def compute_form(body: Mapping[str, Any]) -> str:
    """Compute a digest of the fields of a Service that the compile step sets."""
    text = json.dumps(_read_fields(body.get("spec")), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_FORM_BYTES).hexdigest()


def read_headless(body: Mapping[str, Any]) -> bool | None:
    """Read ``ServiceView.is_headless`` of a Service."""
    spec = body.get("spec")
    address = spec.get("clusterIP") if isinstance(spec, Mapping) else None
    return address == _HEADLESS if address else None


def _is_fixed(stored: ServiceView, wanted: Object) -> bool:
    """Return whether no patch can make a Service headless, or not headless, as wanted."""
    is_wanted = wanted["spec"].get("clusterIP") == _HEADLESS
    return stored.is_headless is not None and stored.is_headless is not is_wanted


def _read_fields(spec: Any) -> Object:
    spec = spec if isinstance(spec, Mapping) else {}
    ports = spec.get("ports")
    return {
        "type": spec.get("type") or "ClusterIP",
        "headless": spec.get("clusterIP") == _HEADLESS,
        "publishNotReadyAddresses": bool(spec.get("publishNotReadyAddresses")),
        "selector": spec.get("selector"),
        "ports": [_read_port(port) for port in (ports if isinstance(ports, list) else ())],
    }


def _read_port(port: Any) -> Object:
    port = port if isinstance(port, Mapping) else {}
    return {
        "name": port.get("name") or "",
        "port": port.get("port"),
        "targetPort": port.get("targetPort") or port.get("port"),
        "protocol": port.get("protocol") or "TCP",
    }


def _build_patch(name: str, stored: ServiceView, body: Object) -> Patch:
    spec = body["spec"]
    fields = {
        "type": spec.get("type") or "ClusterIP",
        "publishNotReadyAddresses": bool(spec.get("publishNotReadyAddresses")),
        "selector": spec["selector"],
        "ports": spec["ports"],
    }
    if spec.get("clusterIP") == _HEADLESS:
        fields["clusterIP"] = _HEADLESS
    return Patch(SERVICE, name, stored.uid, {f"/spec/{key}": v for key, v in fields.items()})
