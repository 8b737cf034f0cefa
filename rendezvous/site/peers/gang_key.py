"""The secret that the Pods of an attempt share, and the proofs that a program has it.

Used by ``barriers``, torchrun's members and the agent's long-polls. A proof is an HMAC-SHA256 of
texts that both ends know, among them a random text that the other end has drawn.
"""

import hashlib
import hmac
import os
from typing import Any, Mapping, Optional

DEFAULT_KEY_FILE = "/var/run/frameworkbarrier/gang-key"
_MIN_KEY_LENGTH = 32
# Of the file: the attempt's name and the key.
_MAX_FILE_LENGTH = 4096
_NONCE_BYTES = 32


class GangKeyError(Exception):
    """The gang key is configured and cannot be used."""


def read_gang_key(attempt: str, env: Mapping[str, str] = os.environ) -> Optional[bytes]:
    """Read the secret that the Pods of this attempt share; None where none is mounted.

    The file is $FB_GANG_KEY_FILE, which must then be there, or the usual one.

    Raises:
        GangKeyError: It cannot be read, is too short, or is of another attempt.
    """
    named = env.get("FB_GANG_KEY_FILE") or ""
    path = named or DEFAULT_KEY_FILE
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_FILE_LENGTH).strip()
    except (OSError, ValueError) as e:
        if not named and isinstance(e, FileNotFoundError):
            return None
        raise GangKeyError(f"the gang key cannot be read: {e}; mount its Secret") from e
    owner, found, key = text.rpartition(":")
    if found and owner != attempt:
        raise GangKeyError(f"the gang key in {path} is of attempt {owner:.80}, not of {attempt}")
    if len(key) < _MIN_KEY_LENGTH:
        raise GangKeyError(f"the gang key in {path} has less than {_MIN_KEY_LENGTH} characters")
    return key.encode()


def compute_proof(key: bytes, *parts: str) -> str:
    """Compute a proof of the gang key: an HMAC-SHA256 of these parts."""
    # The lengths keep the borders between the parts.
    text = "".join(f"{len(part)}:{part}" for part in ("frameworkbarrier/1", *parts))
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def is_proof(given: Any, expected: str) -> bool:
    """Return whether a proof is the expected one, in constant time."""
    return isinstance(given, str) and hmac.compare_digest(
        given.encode("utf-8", "replace"), expected.encode()
    )


def draw_nonce() -> str:
    """Draw a random text that is never drawn twice."""
    return os.urandom(_NONCE_BYTES).hex()
