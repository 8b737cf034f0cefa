"""peers.json: the whole roster in verbose form, for programs and for people. Pure.

Its JSON Schema is docs/peers.schema.json. Within a version, fields may be added; no field is
removed or changes its meaning.
"""

import json
from typing import Any, Dict

from rendezvous.core.membership import Peer, RoleView, View
from rendezvous.renderers.rendered import Rendered, RenderedFile
from rendezvous.settings.options import Options

FILE_NAME = "peers.json"
VERSION = 1
ACTIVE = "Active"


def render(view: View, _options: Options) -> Rendered:
    """Render the roster; each member has a line, so that people can search it."""
    ranks = {(peer.role, peer.index): rank for rank, peer in enumerate(view.ranked)}
    roles = [_render_role(role, ranks) for role in view.roles]
    text = _render_open(_build_document(view)) + ',"roles":[' + ",".join(roles) + "]}\n"
    return Rendered(
        {FILE_NAME: RenderedFile(text.encode())}, {"FB_PEERS_FILE": view.get_path(FILE_NAME)}
    )


def _build_document(view: View) -> Dict[str, Any]:
    roster, identity = view.roster, view.identity
    return {
        "version": VERSION,
        "namespace": roster.namespace,
        "framework": roster.framework,
        "frameworkUID": roster.framework_uid,
        "attemptID": roster.attempt_id,
        "instanceUID": roster.instance_uid,
        "generation": roster.generation,
        "complete": roster.complete,
        "phase": roster.phase,
        "own": {
            "role": identity.role,
            "index": identity.index,
            "isMember": view.own is not None,
            "rank": view.rank,
        },
        "size": len(view.ranked),
        "leaving": [
            {
                "role": leaving.role,
                "index": leaving.index,
                "podUIDFingerprint": leaving.fingerprint,
                "since": leaving.since,
                "deadline": leaving.deadline,
            }
            for leaving in roster.leaving
        ],
    }


def _render_role(role: RoleView, ranks: "dict[tuple[str, int], int]") -> str:
    head = {
        "name": role.name,
        "kind": role.kind.value,
        "wanted": role.roster.wanted,
        "minimum": role.roster.minimum,
        "running": role.roster.running,
        "absent": list(role.roster.absent),
        "completed": [
            {"index": task.index, "state": task.state, "ip": task.address}
            for task in role.roster.completed
        ],
    }
    members = ",\n".join(
        json.dumps(_build_member(p, ranks.get((p.role, p.index), -1)), separators=(",", ":"))
        for p in role.peers
    )
    return "\n" + _render_open(head) + ',"members":[\n' + members + "\n]}"


def _render_open(head: Dict[str, Any]) -> str:
    """Render an object without its end, because its last field follows."""
    return json.dumps(head, separators=(",", ":"))[:-1]


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
