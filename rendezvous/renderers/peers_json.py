"""peers.json: the whole roster in verbose form, for programs and for people. Pure.

Its JSON Schema is docs/peers.schema.json: fields may be added within a version, none is removed or
changes its meaning.
"""

import json
from typing import Any, Dict

from framework.api.roster import CompletedTask, Leaving
from rendezvous.core.membership import Peer, RoleView, View
from rendezvous.renderers.rendered import Rendered, RenderedFile
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
