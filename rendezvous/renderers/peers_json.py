"""peers.json: the whole roster in verbose form, for programs and for people. Pure.

Called by ``registry``; read by ``peers`` in the training process. ``SCHEMA`` is its JSON Schema:
fields may be added within a version, none is removed or changes its meaning.
"""

import json
from typing import Any, Dict

from framework.api.roster import CompletedTask, Leaving
from rendezvous.core.membership import Peer, RoleView, View
from rendezvous.renderers.rendered import Rendered, RenderedFile
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.options import Options

FILE_NAME = "peers.json"
VERSION = 1
ACTIVE = "Active"


def render(view: View, _options: Options) -> Rendered:
    """Render the roster; one member a line, so that people can search it."""
    ranks = {(peer.role, peer.index): rank for rank, peer in enumerate(view.ranked)}
    document = _build_document(view)
    roles = [_render_role(role, ranks) for role in view.roles]
    head = json.dumps(document, separators=(",", ":"))[:-1]
    text = head + ',"roles":[' + ",".join(roles) + "]}\n"
    return Rendered(
        {FILE_NAME: RenderedFile(text.encode())}, {"FB_PEERS_FILE": view.get_path(FILE_NAME)}
    )


def _build_document(view: View) -> Dict[str, Any]:
    return {
        "version": VERSION,
        "namespace": view.namespace,
        "framework": view.framework,
        "frameworkUID": view.framework_uid,
        "attemptID": view.attempt_id,
        "instanceUID": view.instance_uid,
        "generation": view.generation,
        "complete": view.complete,
        "phase": view.phase,
        "own": {
            "role": view.identity.role,
            "index": view.identity.index,
            "isMember": view.own is not None,
            "rank": view.rank,
        },
        "size": len(view.ranked),
        "leaving": [_build_leaving(leaving) for leaving in view.leaving],
    }


def _render_role(role: RoleView, ranks: "dict[tuple[str, int], int]") -> str:
    head = {
        "name": role.name,
        "kind": role.kind.value,
        "wanted": role.wanted,
        "minimum": role.minimum,
        "running": role.running,
        "absent": list(role.absent),
        "completed": [_build_completed(task) for task in role.completed],
    }
    members = ",\n".join(
        json.dumps(_build_member(p, ranks.get((p.role, p.index), -1)), separators=(",", ":"))
        for p in role.peers
    )
    start = json.dumps(head, separators=(",", ":"))[:-1]
    return "\n" + start + ',"members":[\n' + members + "\n]}"


def _build_member(peer: Peer, rank: int) -> Dict[str, Any]:
    return {
        "index": peer.index,
        "rank": rank,
        "roleRank": peer.rank,
        "ip": peer.address,
        "addresses": list(peer.addresses),
        "port": peer.port,
        "slots": peer.slots,
        "podName": peer.pod_name,
        "podUIDFingerprint": peer.fingerprint,
        "attemptID": peer.attempt_id,
        "state": ACTIVE,
    }


def _build_completed(task: CompletedTask) -> Dict[str, Any]:
    return {"index": task.index, "state": task.state, "ip": task.address}


def _build_leaving(leaving: Leaving) -> Dict[str, Any]:
    return {
        "role": leaving.role,
        "index": leaving.index,
        "podUIDFingerprint": leaving.fingerprint,
        "since": leaving.since,
        "deadline": leaving.deadline,
    }


def _object(properties: Dict[str, Any]) -> Dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: Dict[str, Any]) -> Dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT: Dict[str, Any] = {"type": "string"}
_COUNT: Dict[str, Any] = {"type": "integer", "minimum": 0}
_RANK: Dict[str, Any] = {"type": "integer", "minimum": -1}  # -1: computes with nobody
_FLAG: Dict[str, Any] = {"type": "boolean"}

_MEMBER = _object(
    {
        "index": _COUNT,
        "rank": _RANK,
        "roleRank": _COUNT,
        "ip": _TEXT,
        "addresses": _list(_TEXT),
        "port": _COUNT,
        "slots": _COUNT,
        "podName": _TEXT,
        "podUIDFingerprint": _TEXT,
        "attemptID": _COUNT,
        "state": {"type": "string", "enum": [ACTIVE]},
    }
)
_ROLE = _object(
    {
        "name": _TEXT,
        "kind": {"type": "string", "enum": [kind.value for kind in RoleKind]},
        "wanted": _COUNT,
        "minimum": _COUNT,
        "running": _FLAG,
        "absent": _list(_COUNT),
        "completed": _list(_object({"index": _COUNT, "state": _TEXT, "ip": _TEXT})),
        "members": _list(_MEMBER),
    }
)
SCHEMA: Dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": FILE_NAME,
    **_object(
        {
            "version": {"type": "integer", "enum": [VERSION]},
            "namespace": _TEXT,
            "framework": _TEXT,
            "frameworkUID": _TEXT,
            "attemptID": _COUNT,
            "instanceUID": _TEXT,
            "generation": _COUNT,
            "complete": _FLAG,
            "phase": _TEXT,
            "own": _object({"role": _TEXT, "index": _COUNT, "isMember": _FLAG, "rank": _RANK}),
            "size": _COUNT,
            "leaving": _list(
                _object(
                    {
                        "role": _TEXT,
                        "index": _COUNT,
                        "podUIDFingerprint": _TEXT,
                        "since": _COUNT,
                        "deadline": _TEXT,
                    }
                )
            ),
            "roles": _list(_ROLE),
        }
    ),
}
