"""Creation proofs of the objects of a job: the controller process that created an object.

The annotation contains the public key of the controller process that created the object, and a
signature by it over the kind, the namespace and the name of the object, and the UID of the job. It
is verified when the object is read. The status of the job later decides which keys count
(``controller.kinds.decide.creators``).
"""

import sys
from collections.abc import Mapping
from typing import Any

from controller.kinds.decide.ownership import find_owner_uid, get_metadata
from controller.store.creation_proofs import KeyPair, find_signer
from framework.api import constants
from framework.kinds.compiled import Object

_ANNOTATION = constants.CREATION_PROOF_ANNOTATION
_DOMAIN = _ANNOTATION + "/job/1"
_SEPARATOR = "."
_MAX_CHARS = 256


def sign(body: Object, namespace: str, pair: KeyPair) -> Object:
    """Return an object that is about to be created, with its proof."""
    metadata = body["metadata"]
    proof = pair.sign(_list_parts(body["kind"], namespace, body))
    annotations = {
        **(metadata.get("annotations") or {}),
        _ANNOTATION: f"{pair.public_key}{_SEPARATOR}{proof}",
    }
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def find_creator(kind: str, body: Mapping[str, Any]) -> str:
    """Find the public key that the proof of an object names and that verifies it; "" if none."""
    metadata = get_metadata(body)
    annotations = metadata.get("annotations")
    text = annotations.get(_ANNOTATION) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str) or len(text) > _MAX_CHARS:
        return ""
    key, _, proof = text.partition(_SEPARATOR)
    parts = _list_parts(kind, str(metadata.get("namespace")), body)
    # Most Services of a job have the same key: it is kept once.
    return sys.intern(find_signer(proof, [key], parts))


def _list_parts(kind: str, namespace: str, body: Mapping[str, Any]) -> list[str]:
    return [_DOMAIN, kind, namespace, str(get_metadata(body).get("name")), find_owner_uid(body)]
