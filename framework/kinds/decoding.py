"""What all kinds share: metadata, unknown fields, checks of numbers. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.api.constants import FRAMEWORK_NAME, MAX_TASK_NUMBER, RETRYABLE_CODES_ANNOTATION
from framework.api.fielderrors import FieldError
from framework.api.naming import is_framework_name
from framework.api.wire import Errors, json_type
from framework.kinds.compiled import Note, Object

MAX_NAME = 63
"""Characters of a name in DNS: Pods and Services have the name of the job in theirs."""


@dataclass(frozen=True, slots=True)
class JobMeta:
    """The metadata that a compile step reads. ``namespace`` is "" if the file has none."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def decode_meta(body: Mapping[str, Any], suffix: str, errors: Errors) -> JobMeta:
    """Decode the metadata; ``suffix`` is the longest that an object adds to the name."""
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        errors.append(FieldError("metadata", "is required: write an object with a name"))
        return JobMeta("")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        errors.append(FieldError("metadata.name", "is required: name the job"))
        name = ""
    elif not is_framework_name(name) or not name[0].isalpha():
        errors.append(
            FieldError(
                "metadata.name",
                f"{name!r} cannot begin the names of Pods and Services: use a-z, 0-9 and '-', "
                "beginning with a letter and ending with a letter or digit",
            )
        )
    elif len(name + suffix) > MAX_NAME:
        errors.append(
            FieldError(
                "metadata.name",
                f"{name}{suffix} would have {len(name + suffix)} characters, and a name in DNS has "
                f"at most {MAX_NAME}: use at most {MAX_NAME - len(suffix)} characters",
            )
        )
    namespace = metadata.get("namespace") or ""
    if namespace and not (isinstance(namespace, str) and is_framework_name(namespace)):
        errors.append(
            FieldError("metadata.namespace", f"{namespace!r} is not a namespace: correct it")
        )
        namespace = ""
    texts = [_decode_texts(metadata, key, errors) for key in ("labels", "annotations")]
    return JobMeta(name, namespace, *texts)


def build_metadata(job: JobMeta, name: str, labels: Mapping[str, str]) -> Object:
    """Build the metadata of an object in the namespace of the job."""
    metadata: Object = {"name": name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    if labels:
        metadata["labels"] = dict(labels)
    return metadata


def select_gang(name: str, labels: Mapping[str, str]) -> Object:
    """Build the selector of a Service: these labels, on Pods of the Framework of this name only.

    Other authors of templates can use the same labels, but only the controller writes that of the
    Framework.
    """
    return {**labels, FRAMEWORK_NAME: name}


def _decode_texts(metadata: Mapping[str, Any], key: str, errors: Errors) -> Mapping[str, str]:
    texts = metadata.get(key)
    if texts is None:
        return {}
    path = f"metadata.{key}"
    if not isinstance(texts, Mapping):
        errors.append(FieldError(path, f"must be an object of texts, not {json_type(texts)}"))
        return {}
    decoded = {}
    for name, value in texts.items():
        if isinstance(value, str):
            decoded[str(name)] = value
        else:
            errors.append(
                FieldError(f"{path}[{name}]", f"must be a string, not {json_type(value)}: quote it")
            )
    return decoded


def decode_body(body: Mapping[str, Any], errors: Errors) -> Mapping[str, Any]:
    """Return the spec; an empty one after an error."""
    spec = body.get("spec")
    if isinstance(spec, Mapping):
        return spec
    errors.append(
        FieldError("spec", "is required: write the spec of the job")
        if spec is None
        else FieldError("spec", f"must be an object, not {json_type(spec)}")
    )
    return {}


def note_unknown(extra: Mapping[str, Any], path: str) -> Iterator[Note]:
    """Say which fields are unknown."""
    for key in extra:
        yield Note(f"{path}.{key}", "unknown field, left out: check its spelling")


def note_misplaced(job: JobMeta) -> Iterator[Note]:
    """Say which annotations have an effect only in a Pod template."""
    if RETRYABLE_CODES_ANNOTATION in job.annotations:
        yield Note(
            f"metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]",
            "has no effect here: move it to the metadata of a Pod template",
        )


def check_range(path: str, value: int, least: int, meaning: str) -> Iterator[FieldError]:
    """Find a number outside of [least, MAX_TASK_NUMBER]."""
    if not least <= value <= MAX_TASK_NUMBER:
        yield FieldError(
            path, f"must be from {least} to {MAX_TASK_NUMBER}, not {value}: it is {meaning}"
        )
