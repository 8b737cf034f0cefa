"""Creation proofs: a nonce, and an Ed25519 signature over the identity of an object and the nonce.

``controller.store.provenance`` uses them for Pods and ConfigMaps, ``controller.kinds.proofs`` for
the objects of jobs.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from framework.clock import KeySource

_KEY_BYTES = 32
_NONCE_BYTES = 16
_SIGNATURE_BYTES = 64


class KeyPair:
    """A key pair whose private key never leaves the process."""

    def __init__(self, keys: KeySource) -> None:
        """Make the key pair."""
        self._keys = keys
        self._key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(keys.new_key()))
        self.public_key = _encode(self._key.public_key().public_bytes_raw())

    def sign(self, parts: Sequence[str]) -> str:
        """Build the proof of an object that is about to be created; ``parts`` identify it."""
        nonce = bytes.fromhex(self._keys.new_key())[:_NONCE_BYTES]
        return _encode(nonce + self._key.sign(_build_message(parts, nonce)))


def find_signer(proof: str, keys: Iterable[str], parts: Sequence[str]) -> str:
    """Find the public key that verifies a proof; "" if no key does, or the text is no proof."""
    decoded = _decode(proof, _NONCE_BYTES + _SIGNATURE_BYTES)
    if decoded is None:
        return ""
    nonce, signature = decoded[:_NONCE_BYTES], decoded[_NONCE_BYTES:]
    message = _build_message(parts, nonce)
    return next((key for key in keys if _is_signed(key, signature, message)), "")


def _build_message(parts: Sequence[str], nonce: bytes) -> bytes:
    return json.dumps([*parts, nonce.hex()]).encode()


def _is_signed(key: str, signature: bytes, message: bytes) -> bool:
    public_key = _load_key(key)
    if public_key is None:
        return False
    try:
        public_key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=64)
def _load_key(text: str) -> Ed25519PublicKey | None:
    decoded = _decode(text, _KEY_BYTES)
    return None if decoded is None else Ed25519PublicKey.from_public_bytes(decoded)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decode(text: str, length: int) -> bytes | None:
    """Decode ``length`` bytes that ``_encode`` has encoded; None for another text."""
    if len(text) != 4 * -(-length // 3):
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if len(content) == length else None
