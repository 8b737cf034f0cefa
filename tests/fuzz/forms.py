"""Converts the bytes of an input into the argument of a decoder, and objects into seeds."""

import base64
import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from localcluster.apiserver.bodies.wire import DecodeError, Decoder
from tests.fuzz.budget import SkipInputError

_DIRECTORY = Path(tempfile.mkdtemp(prefix="frameworkbarrier-fuzz-"))


def to_bytes(value: Any) -> bytes:
    """Return a seed as JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def read_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that an API server would have delivered."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise SkipInputError from e
    if not isinstance(value, dict):
        raise SkipInputError
    return value


def read_pod(data: bytes) -> dict[str, Any]:
    """Return the Pod that an API server would have stored: its fields have their types."""
    return _read_typed(data, "Pod")


def read_configmap(data: bytes) -> dict[str, Any]:
    """Return the ConfigMap that an API server would have stored."""
    return _read_typed(data, "ConfigMap")


def _read_typed(data: bytes, kind: str) -> dict[str, Any]:
    try:
        return Decoder().decode(kind, read_object(data))
    except (DecodeError, RecursionError) as e:
        raise SkipInputError from e


def read_texts(data: bytes) -> dict[str, str]:
    """Return a mapping of texts, such as an environment."""
    value = read_object(data)
    if not all(isinstance(text, str) for text in value.values()):
        raise SkipInputError
    return value


def to_text(data: bytes) -> str:
    """Return the text of an input."""
    return data.decode("utf-8", "replace")


def compress(data: bytes) -> bytes:
    """Compress an input, for decoders that decompress."""
    return gzip.compress(data, 1, mtime=0)


def compress_text(data: bytes) -> str:
    """Compress an input and encode it as base64."""
    return base64.b64encode(compress(data)).decode()


def write_file(data: bytes) -> str:
    """Write an input to a file for decoders that read one; return its path."""
    # A process may have tests of several modules in turn, and remove the files after each.
    _DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    path = _DIRECTORY / "input"
    path.write_bytes(data)
    return str(path)


def remove_files() -> None:
    """Remove what ``write_file`` wrote."""
    shutil.rmtree(_DIRECTORY, ignore_errors=True)
