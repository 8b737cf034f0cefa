"""Rules for the metadata of all kinds."""

import re
from collections.abc import Callable
from itertools import pairwise

from localcluster.apiserver.model import errors, names
from localcluster.apiserver.model.errors import Cause, Object, invalid_value
from localcluster.apiserver.model.registry import ResourceType

MAX_ANNOTATION_BYTES = 256 * 1024
FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_BASE = 58
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_STANDARD_FINALIZERS = ("kubernetes", ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
_RBAC_GROUP = "rbac.authorization.k8s.io"

NameRule = Callable[[str], list[str]]


def name_rule(rt: ResourceType) -> NameRule:
    """Return the rule for names of a type."""
    if rt.group == _RBAC_GROUP:
        return names.path_segment_faults
    special = {("", "namespaces"): names.label_faults, ("", "services"): names.label_1035_faults}
    return special.get(rt.key, names.subdomain_faults)


def generate_name(base: str, uid: str, attempt: int) -> str:
    """Return a name from ``generateName``; another one for each attempt."""
    number = int(uid.replace("-", ""), 16) // (attempt + 1) if uid else attempt
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        number, index = divmod(number, len(_SUFFIX_ALPHABET))
        suffix += _SUFFIX_ALPHABET[index]
    return base[:_MAX_GENERATED_BASE] + suffix


def create_faults(rt: ResourceType, obj: Object) -> list[Cause]:
    """Check the metadata of a new object."""
    metadata = obj["metadata"]
    rule = name_rule(rt)
    found: list[Cause] = []
    base = metadata.get("generateName", "")
    if base:
        found += [
            invalid_value("metadata.generateName", base, fault)
            for fault in rule(re.sub(r"-\Z", "a", base))
        ]
    name = metadata.get("name", "")
    if not name:
        found.append(errors.required("metadata.name", "name or generateName is required"))
    else:
        found += [invalid_value("metadata.name", name, fault) for fault in rule(name)]
    return found + shape_faults(rt, metadata)


def update_faults(rt: ResourceType, old: Object, new: Object) -> list[Cause]:
    """Check the metadata of a changed object against the old metadata."""
    was, now = old["metadata"], new["metadata"]
    found: list[Cause] = []
    if was.get("deletionTimestamp"):
        added = [f for f in now.get("finalizers") or () if f not in (was.get("finalizers") or ())]
        if added:
            listed = "{" + ", ".join(errors.quote(item) for item in added) + "}"
            detail = (
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{listed}"
            )
            found.append(errors.not_allowed("metadata.finalizers", detail))
    for name in _IMMUTABLE:
        if now.get(name) != was.get(name):
            value = now.get(name)
            found.append(invalid_value(f"metadata.{name}", value, "field is immutable"))
    if all(now.get(name) == was.get(name) for name in _SHAPED):
        return found
    return found + shape_faults(rt, now)


_SHAPED = ("labels", "annotations", "ownerReferences", "finalizers")


def shape_faults(rt: ResourceType, metadata: Object) -> list[Cause]:
    """Check labels, annotations, owners and finalizers."""
    found = label_faults(metadata.get("labels") or {}, "metadata.labels")
    found += _annotation_faults(metadata.get("annotations") or {})
    found += _owner_faults(metadata.get("ownerReferences") or [])
    found += _finalizer_faults(metadata.get("finalizers") or [], is_custom=rt.is_custom)
    return found


def label_faults(labels: dict[str, str], path: str) -> list[Cause]:
    """Check the keys and values of labels."""
    found: list[Cause] = []
    for key, value in labels.items():
        found += [invalid_value(path, key, fault) for fault in names.qualified_name_faults(key)]
        found += [invalid_value(path, value, fault) for fault in names.label_value_faults(value)]
    return found


def _annotation_faults(annotations: dict[str, str]) -> list[Cause]:
    path = "metadata.annotations"
    found: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        faults = names.qualified_name_faults(key.lower())
        found += [invalid_value(path, key, fault) for fault in faults]
        size += len(key.encode()) + len(value.encode())
    if size > MAX_ANNOTATION_BYTES:
        found.append(errors.too_long(path, MAX_ANNOTATION_BYTES))
    return found


def _owner_faults(owners: list[Object]) -> list[Cause]:
    found: list[Cause] = []
    for owner in owners:
        path = "metadata.ownerReferences"
        if not owner.get("apiVersion"):
            found.append(invalid_value(f"{path}.apiVersion", "", "version must not be empty"))
        found += [
            invalid_value(f"{path}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        ]
    controllers = [owner.get("name", "") for owner in owners if owner.get("controller")]
    for first, second in pairwise(controllers):
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{first} and {second}"
        )
        found.append(invalid_value("metadata.ownerReferences", owners, detail))
    return found


def _finalizer_faults(finalizers: list[str], *, is_custom: bool) -> list[Cause]:
    path = "metadata.finalizers"
    found = [
        invalid_value(path, finalizer, fault)
        for finalizer in finalizers
        for fault in names.qualified_name_faults(finalizer)
    ]
    if not is_custom:
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        found += [
            invalid_value(f"{path}[{index}]", finalizer, detail)
            for index, finalizer in enumerate(finalizers)
            if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
        ]
    if FOREGROUND_FINALIZER in finalizers and ORPHAN_FINALIZER in finalizers:
        detail = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        found.append(invalid_value(path, finalizers, detail))
    return found


def carry_over(old: Object, new: Object) -> None:
    """Set in a changed object (in place) the metadata that clients cannot change."""
    was, now = old["metadata"], new["metadata"]
    now.setdefault("uid", was["uid"])
    now["creationTimestamp"] = was["creationTimestamp"]
    if "deletionTimestamp" in was:
        now["deletionTimestamp"] = was["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in was:
        now.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])
    if "generation" in was:
        now["generation"] = was["generation"]
    else:
        now.pop("generation", None)
    now.pop("managedFields", None)
    now.pop("selfLink", None)
    drop_empty(now)


def drop_empty(metadata: Object) -> None:
    """Remove (in place) empty labels, annotations, owners, finalizers and strings."""
    for name in [name for name, value in metadata.items() if value in ("", [], {})]:
        del metadata[name]
