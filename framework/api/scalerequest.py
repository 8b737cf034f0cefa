"""The request of a scaler from the controller to the launcher's agent, and the agent's result.

The request is in the attempt's ConfigMap, next to the roster; the result is an annotation of the
launcher's Pod. Both are decoded within bounds. Python 3.7 syntax, because the zipapp of the agents
contains this file. Rules: docs/design/agents.md, "Scalers".
"""

import base64
import json
import re
import shlex
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from framework.api.constants import MAX_TASK_NUMBER
from framework.api.naming import is_role_name
from framework.api.packed import Bounds, PackedError, parse_json
from framework.api.text import cut_text, make_printable

MAX_WORKERS = 1000
"""Workers of one scaler: the argument of the script has their names, and Linux limits it."""
MAX_SCRIPT_CHARS = 1024
MAX_VARIABLES = 64
MAX_VARIABLE_CHARS = 4096
MAX_ENV_BYTES = 128 * 1024
"""All variables as JSON: a request shares its ConfigMap, of at most 1 MiB, with the roster."""
MAX_TIMEOUT_SECONDS = 24 * 3600
MAX_SLOTS = 1024
MAX_RESULT_CHARS = 1024
"""Characters of the annotation with the result; deploy/admission has the same limit."""

_MAX_MESSAGE_BYTES = 512
_MAX_HOST_CHARS = 253
_MAX_JSON_BYTES = 512 * 1024
_REQUEST_BOUNDS = Bounds(_MAX_JSON_BYTES, _MAX_JSON_BYTES, 4 * MAX_WORKERS + 1000)
_RESULT_BOUNDS = Bounds(MAX_RESULT_CHARS * 4, MAX_RESULT_CHARS * 4, 100)
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z")


class ScaleRequestError(ValueError):
    """The text is no request or no result, or exceeds its bounds."""


class ScaleRequest(NamedTuple):
    """The work of the launcher's agent for a scaler. The agent does it once."""

    uid: str
    """UID of the scaler."""
    is_scale_in: bool
    """Whether the workers leave; otherwise they are added."""
    role: str
    """Role of the workers."""
    indexes: Tuple[int, ...]
    """Indexes of the workers that leave or are added."""
    hosts: Tuple[str, ...]
    """Addresses of the workers that leave: the agent waits until no process names them."""
    slots: int
    """Processes per worker, in the argument of the script."""
    script: str
    """Path of the script in the launcher, and its arguments (``split_script``); "" for none."""
    env: Tuple[Tuple[str, str], ...]
    """Variables of the script."""
    timeout_seconds: int
    """Limit of the wait before the script, and of the script itself."""


class ScaleResult(NamedTuple):
    """The result of a request. ``code`` 0: success; otherwise ``message`` has the reason."""

    uid: str
    code: int
    message: str = ""


def is_variable_name(name: str) -> bool:
    """Return whether a shell can export a variable of this name."""
    return _VARIABLE.match(name) is not None


def split_script(script: str) -> List[str]:
    """Split the text of a script into its path and its arguments, by the quotes of a shell.

    Raises:
        ValueError: A quote is not closed.
    """
    return shlex.split(script)


def count_env_bytes(env: Iterable[Tuple[str, str]]) -> int:
    """Count the bytes of variables in a request. Some characters take twelve."""
    return len(json.dumps(dict(env)))


def encode_request(request: ScaleRequest) -> str:
    """Encode a request for ``binaryData`` of a ConfigMap."""
    wire = {**request._asdict(), "env": dict(request.env)}
    return base64.b64encode(json.dumps(wire, separators=(",", ":")).encode()).decode()


def decode_request(stored: Any) -> ScaleRequest:
    """Decode a request.

    Raises:
        ScaleRequestError: The text is something else, or exceeds its bounds.
    """
    if not isinstance(stored, str) or len(stored) % 4 or not _BASE64.match(stored):
        raise ScaleRequestError("is not base64")
    if len(stored) > _MAX_JSON_BYTES // 3 * 4:
        raise ScaleRequestError("is too long")
    wire = _parse_object(base64.b64decode(stored), _REQUEST_BOUNDS)
    env = _get(wire, "env", dict)
    request = ScaleRequest(
        uid=_get(wire, "uid", str),
        is_scale_in=_get(wire, "is_scale_in", bool),
        role=_get(wire, "role", str),
        indexes=tuple(_get(wire, "indexes", list)),
        hosts=tuple(_get(wire, "hosts", list)),
        slots=_get(wire, "slots", int),
        script=_get(wire, "script", str),
        env=tuple(sorted(env.items())),
        timeout_seconds=_get(wire, "timeout_seconds", int),
    )
    for fault in _list_faults(request):
        raise ScaleRequestError(fault)
    return request


def encode_result(result: ScaleResult) -> str:
    """Encode a result for an annotation; a long message is cut."""
    message = cut_text(make_printable(result.message, keep="\n"), _MAX_MESSAGE_BYTES)
    wire = {"uid": result.uid, "code": result.code, "message": message}
    text = json.dumps(wire, ensure_ascii=False, separators=(",", ":"))
    if len(text) <= MAX_RESULT_CHARS:
        return text
    # Each character of the message takes more than one in JSON.
    return encode_result(result._replace(message=message[: len(message) // 2]))


def decode_result(text: str) -> ScaleResult:
    """Decode a result.

    Raises:
        ScaleRequestError: The text is something else, or exceeds its bounds.
    """
    if len(text) > MAX_RESULT_CHARS:
        raise ScaleRequestError("is too long")
    wire = _parse_object(text.encode("utf-8", "replace"), _RESULT_BOUNDS)
    uid = _get(wire, "uid", str)
    if not _UID.match(uid):
        raise ScaleRequestError("uid is not a UID")
    message = make_printable(_get(wire, "message", str), keep="\n")
    return ScaleResult(uid, _get(wire, "code", int), message)


def _list_faults(request: ScaleRequest) -> List[str]:
    indexes, hosts = request.indexes, request.hosts
    checks = (
        ("uid", bool(_UID.match(request.uid))),
        ("role", is_role_name(request.role)),
        ("indexes", 0 < len(indexes) <= MAX_WORKERS and all(map(_is_index, indexes))),
        ("hosts", len(hosts) <= 2 * MAX_WORKERS and all(map(_is_host, hosts))),
        ("slots", 0 < request.slots <= MAX_SLOTS),
        ("script", _is_script(request.script)),
        ("env", len(request.env) <= MAX_VARIABLES and all(map(_is_variable, request.env))),
        ("timeout_seconds", 0 < request.timeout_seconds <= MAX_TIMEOUT_SECONDS),
    )
    return [f"{name} is not valid" for name, is_valid in checks if not is_valid]


def _is_script(script: str) -> bool:
    if len(script) > MAX_SCRIPT_CHARS or "\0" in script:
        return False
    try:
        return not script or bool(split_script(script))
    except ValueError:
        return False


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_TASK_NUMBER


def _is_host(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_HOST_CHARS


def _is_variable(pair: Tuple[Any, Any]) -> bool:
    name, value = pair
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    return is_variable_name(name) and len(value) <= MAX_VARIABLE_CHARS and "\0" not in value


def _parse_object(raw: bytes, bounds: Bounds) -> Dict[str, Any]:
    try:
        wire = parse_json(raw, bounds)
    except PackedError as e:
        raise ScaleRequestError(str(e)) from e
    if not isinstance(wire, dict):
        raise ScaleRequestError("is not an object")
    return wire


def _get(wire: Dict[str, Any], key: str, kind: type) -> Any:
    value = wire.get(key)
    if type(value) is not kind:
        raise ScaleRequestError(f"{key} is not of type {kind.__name__}")
    return value
