"""Decodes ScaleIn and ScaleOut, and finds their faults. Pure.

As in the original, ``toDelete.podNames`` wins over ``toDelete.count``. ``backoffLimit`` is accepted
and has no effect: the original does not read it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.naming import is_framework_name, is_namespace_name, is_object_name
from framework.api.scalerequest import (
    MAX_ENV_BYTES,
    MAX_SCRIPT_CHARS,
    MAX_TIMEOUT_SECONDS,
    MAX_VARIABLE_CHARS,
    MAX_VARIABLES,
    MAX_WORKERS,
    count_env_bytes,
    is_variable_name,
    split_script,
)
from framework.api.text import make_printable
from framework.api.wire import INT, STR, Errors, Field, Kind, Struct, json_type, list_kind
from framework.kinds.compiled import Note
from framework.kinds.decoding import decode_body, note_unknown
from framework.kinds.scaling.types import (
    DEFAULT_TIMEOUT_SECONDS,
    Extra,
    ScalerKind,
    ScalerSpec,
)
from framework.kinds.scaling.workers import find_index
from framework.kinds.trainingjob.types import API_VERSION, WORKER

_SHOWN_CHARS = 80
_EVALUATED = frozenset("$`;|&<>()*?[~")
"""Characters that have a meaning of their own for the shell of the original."""


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str = ""
    value: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Selector:
    name: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Workers:
    count: int | None = None
    pod_names: tuple[str, ...] | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Written:
    """The spec as its user wrote it. None means that the field is absent."""

    selector: _Selector | None = None
    """Names the TrainingJob."""
    script: str = ""
    """Path of the script in the launcher, and its arguments."""
    timeout: int | None = None
    """Limit of the wait before the script, and of the script itself, in seconds."""
    env: tuple[_Variable, ...] = ()
    """Variables of the script."""
    backoff_limit: int | None = None
    """Has no effect; the user is warned if it is present."""
    workers: _Workers | None = None
    """Workers to add or to delete: ``toAdd`` or ``toDelete``."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know."""


_VARIABLE = Struct(_Variable, Field("name", "name", STR), Field("value", "value", STR))
_SELECTOR = Struct(_Selector, Field("name", "name", STR))
_COUNT = Field("count", "count", INT)
_TO_DELETE = Struct(_Workers, _COUNT, Field("podNames", "pod_names", list_kind(STR)))
_TO_ADD = Struct(_Workers, _COUNT)


def _build_spec(field_name: str, workers: Kind) -> Struct[_Written]:
    return Struct(
        _Written,
        Field("selector", "selector", _SELECTOR.kind()),
        Field("script", "script", STR),
        Field("timeout", "timeout", INT),
        Field("env", "env", list_kind(_VARIABLE.kind())),
        Field("backoffLimit", "backoff_limit", INT),
        Field(field_name, "workers", workers),
    )


_FIELDS = {ScalerKind.SCALE_IN: "toDelete", ScalerKind.SCALE_OUT: "toAdd"}
_SPECS = {
    ScalerKind.SCALE_IN: _build_spec("toDelete", _TO_DELETE.kind()),
    ScalerKind.SCALE_OUT: _build_spec("toAdd", _TO_ADD.kind()),
}


def find_scaler_kind(body: Mapping[str, Any]) -> ScalerKind | None:
    """Find the kind of a scaler; None for another object."""
    kind = body.get("kind")
    return ScalerKind(kind) if body.get("apiVersion") == API_VERSION and kind in _BY_NAME else None


_BY_NAME = frozenset(str(kind) for kind in ScalerKind)


def decode_scaler_spec(kind: ScalerKind, body: Mapping[str, Any]) -> tuple[ScalerSpec, list[Note]]:
    """Decode a scaler; ``status`` is not read.

    Returns:
        The spec with its defaults, and what has no effect in it.

    Raises:
        FieldErrors: with all faults.
    """
    errors: Errors = list(_check_metadata(body))
    written = _SPECS[kind].decode(decode_body(body, errors), "spec", errors)
    if written is not None and isinstance(body.get("spec"), Mapping):
        errors += _find_faults(kind, written)
    if errors or written is None:
        raise FieldErrors(errors)
    workers = written.workers or _Workers()
    names = workers.pod_names or ()
    spec = ScalerSpec(
        job=written.selector.name if written.selector else "",
        count=0 if names else workers.count or 0,
        pod_names=tuple(dict.fromkeys(names)),
        script=written.script,
        timeout_seconds=(DEFAULT_TIMEOUT_SECONDS if written.timeout is None else written.timeout),
        env=tuple((variable.name, variable.value) for variable in written.env),
    )
    return spec, list(_list_notes(kind, written))


def _list_notes(kind: ScalerKind, written: _Written) -> Iterator[Note]:
    yield from note_unknown(written.extra, "spec")
    if written.selector is not None:
        yield from note_unknown(written.selector.extra, "spec.selector")
    if written.workers is not None:
        yield from note_unknown(written.workers.extra, f"spec.{_FIELDS[kind]}")
        if written.workers.count is not None and written.workers.pod_names:
            yield Note("spec.toDelete.count", "has no effect beside podNames: remove it")
    if written.backoff_limit is not None:
        yield Note("spec.backoffLimit", "has no effect, as in the original: remove it")
    if written.env and not written.script:
        yield Note("spec.env", "has no effect without a script: remove it")


def _check_metadata(body: Mapping[str, Any]) -> Iterator[FieldError]:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        yield FieldError("metadata", "is required: write an object with a name or a generateName")
        return
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if not name and not prefix:
        yield FieldError(
            "metadata.name", "is required: write a name, or a generateName for kubectl create"
        )
    # The server adds five characters to a generateName; it may end with a dash.
    for key, text, end in (("name", name, ""), ("generateName", prefix, "x")):
        if text and not (isinstance(text, str) and is_object_name(text + end)):
            yield FieldError(
                f"metadata.{key}",
                f"{_show(text)} is not the name of an object: use a-z, 0-9, '-' and '.', "
                "beginning with a letter or digit",
            )
    namespace = metadata.get("namespace")
    if namespace and not (isinstance(namespace, str) and is_namespace_name(namespace)):
        yield FieldError("metadata.namespace", f"{_show(namespace)} is not a namespace: correct it")


def _find_faults(kind: ScalerKind, written: _Written) -> Iterator[FieldError]:
    yield from _check_selector(written.selector)
    job = written.selector.name if written.selector else ""
    yield from _check_workers(written.workers, f"spec.{_FIELDS[kind]}", kind, job)
    yield from _check_script(written.script)
    timeout = written.timeout
    if timeout is not None and not 1 <= timeout <= MAX_TIMEOUT_SECONDS:
        yield FieldError(
            "spec.timeout",
            f"must be from 1 to {MAX_TIMEOUT_SECONDS}, not {timeout}: it is a number of seconds",
        )
    yield from _check_env(written.env)
    yield from _check_env_size(written.env)


def _check_selector(selector: _Selector | None) -> Iterator[FieldError]:
    if selector is None:
        yield FieldError("spec.selector", "is required: write an object with the name of a job")
    elif not selector.name:
        yield FieldError("spec.selector.name", "is required: write the name of a TrainingJob")
    elif not is_framework_name(selector.name):
        yield FieldError(
            "spec.selector.name",
            f"{_show(selector.name)} is not the name of a TrainingJob: use a-z, 0-9 and '-'",
        )


def _check_workers(
    workers: _Workers | None, path: str, kind: ScalerKind, job: str
) -> Iterator[FieldError]:
    is_scale_in = kind is ScalerKind.SCALE_IN
    forms = "count or podNames" if is_scale_in else "count"
    if workers is None:
        yield FieldError(path, f"is required: write an object with {forms}")
        return
    if workers.pod_names is not None:
        yield from _check_names(workers.pod_names, f"{path}.podNames", job)
        if workers.pod_names:
            return
    if workers.count is None:
        if workers.pod_names is None:
            yield FieldError(f"{path}.count", f"is required: write {forms}")
    elif not 1 <= workers.count <= MAX_WORKERS:
        verb = "remove" if is_scale_in else "add"
        yield FieldError(
            f"{path}.count",
            f"must be from 1 to {MAX_WORKERS}, not {workers.count}: it is the number of workers "
            f"to {verb}",
        )


def _check_names(names: tuple[str, ...], path: str, job: str) -> Iterator[FieldError]:
    if not names:
        yield FieldError(path, "is empty: list the Pods of workers, or write count instead")
    if len(names) > MAX_WORKERS:
        yield FieldError(
            path, f"has {len(names)} names: use at most {MAX_WORKERS}, and several ScaleIns"
        )
        return
    for index, name in enumerate(names):
        if not is_object_name(name):
            yield FieldError(
                f"{path}[{index}]",
                f"{_show(name)} is not the name of a Pod: write JOB-worker-INDEX",
            )
        elif is_framework_name(job) and find_index(job, name) is None:
            yield FieldError(
                f"{path}[{index}]",
                f"{_show(name)} is not the name of a worker of {job}, which spec.selector names: "
                f"write {job}-{WORKER}-INDEX",
            )


def _check_script(script: str) -> Iterator[FieldError]:
    if len(script) > MAX_SCRIPT_CHARS:
        yield FieldError(
            "spec.script",
            f"has {len(script)} characters: write the path of a file, of at most "
            f"{MAX_SCRIPT_CHARS} characters",
        )
    elif "\0" in script or "\n" in script:
        yield FieldError(
            "spec.script",
            "has a line end or a zero character: write the path of a file in the launcher",
        )
    elif script:
        yield from _check_words(script)


def _check_words(script: str) -> Iterator[FieldError]:
    """Check the path and the arguments. In the original, a shell evaluates them."""
    special = sorted(set(script) & _EVALUATED)
    if special:
        yield FieldError(
            "spec.script",
            f"has {' '.join(special)}, and no shell evaluates it: write a path and arguments, and "
            "put the commands into a script in the launcher",
        )
        return
    try:
        words = split_script(script)
    except ValueError:
        yield FieldError("spec.script", f"{_show(script)} has a quote without an end: close it")
        return
    if not words or not words[0]:
        yield FieldError("spec.script", f"{_show(script)} has no path: write one, or leave it out")
    elif words[0].startswith("-"):
        yield FieldError(
            "spec.script", f"{_show(script)} begins with a dash: write the path of a file as ./NAME"
        )


def _check_env(env: tuple[_Variable, ...]) -> Iterator[FieldError]:
    if len(env) > MAX_VARIABLES:
        yield FieldError("spec.env", f"has {len(env)} variables: use at most {MAX_VARIABLES}")
        return
    seen: set[str] = set()
    for index, variable in enumerate(env):
        path = f"spec.env[{index}]"
        if not variable.name:
            yield FieldError(f"{path}.name", "is required: write the name of a variable")
        elif not is_variable_name(variable.name):
            yield FieldError(
                f"{path}.name",
                f"{_show(variable.name)} is not the name of a variable: use letters, digits and "
                "'_', beginning with a letter or '_'",
            )
        elif variable.name in seen:
            yield FieldError(f"{path}.name", f"{variable.name} is given twice: remove one of them")
        seen.add(variable.name)
        if len(variable.value) > MAX_VARIABLE_CHARS:
            yield FieldError(
                f"{path}.value",
                f"has {len(variable.value)} characters: use at most {MAX_VARIABLE_CHARS}",
            )
        elif "\0" in variable.value:
            yield FieldError(f"{path}.value", "has a zero character: remove it")
        if "valueFrom" in variable.extra:
            yield FieldError(
                f"{path}.valueFrom", "is not a field of this kind: write the text as value"
            )


def _check_env_size(env: tuple[_Variable, ...]) -> Iterator[FieldError]:
    size = count_env_bytes((variable.name, variable.value) for variable in env)
    if size > MAX_ENV_BYTES:
        yield FieldError(
            "spec.env",
            f"has {size} bytes as JSON: use at most {MAX_ENV_BYTES}, and a file in the launcher "
            "for the others",
        )


def _show(value: object) -> str:
    text = value if isinstance(value, str) else json_type(value)
    return repr(make_printable(text[:_SHOWN_CHARS]))
