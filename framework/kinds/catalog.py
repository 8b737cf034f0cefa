"""The kinds that become Frameworks, by apiVersion and kind, and the scalers. Pure."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from framework.kinds.compiled import Compiled, Note
from framework.kinds.scaling.decode import decode_scaler_spec, find_scaler_kind
from framework.kinds.scaling.types import ScalerKind
from framework.kinds.tfjob import types as tfjob
from framework.kinds.tfjob.compile import compile_tfjob
from framework.kinds.trainingjob import types as trainingjob
from framework.kinds.trainingjob.compile import compile_trainingjob

Compile: TypeAlias = Callable[[Mapping[str, Any]], Compiled]

KINDS: Mapping[tuple[str, str], Compile] = {
    (tfjob.API_VERSION, tfjob.KIND): compile_tfjob,
    (trainingjob.API_VERSION, trainingjob.KIND): compile_trainingjob,
}


_NAMES = (*KINDS, *((trainingjob.API_VERSION, str(kind)) for kind in ScalerKind))
# Similarity (0 to 1) from which a kind is a misspelt one: ScaleInn, not ScaleOut for ScaleIn.
_NEAR_KIND = 0.8
_MOST_CHARS = 80


def find_compile(body: Mapping[str, Any]) -> Compile | None:
    """Find the compile step of an object; None for an object of another kind."""
    return KINDS.get((str(body.get("apiVersion")), str(body.get("kind"))))


def is_scaler(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a ScaleIn or a ScaleOut, which become no Framework."""
    return find_scaler_kind(body) is not None


def check_scaler(body: Mapping[str, Any]) -> list[Note]:
    """Return what has no effect in a scaler; nothing for another object.

    Raises:
        FieldErrors: with all faults of the scaler.
    """
    kind = find_scaler_kind(body)
    return [] if kind is None else decode_scaler_spec(kind, body)[1]


def find_api_versions(kind: str) -> tuple[str, ...]:
    """Find the apiVersions of a kind; none for another kind."""
    return tuple(api_version for api_version, name in _NAMES if name == kind)


def find_kind(api_version: str, kind: str) -> str | None:
    """Find the kind of this apiVersion whose name is ``kind`` or similar; None if there is none."""
    names = {name.casefold(): name for version, name in _NAMES if version == api_version}
    near = difflib.get_close_matches(kind.casefold()[:_MOST_CHARS], names, 1, _NEAR_KIND)
    return names[near[0]] if near else None


def describe_kinds() -> str:
    """List the kinds, for messages."""
    return ", ".join(f"{kind} ({api_version})" for api_version, kind in KINDS)
