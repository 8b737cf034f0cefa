"""The values of torchrun's members in the store of rank 0, signed with the gang key, if any.

A signature covers the attempt, the run, a number that rank 0 draws for each of its stores, and the
name of the value, so a value of another store or name is rejected. Another client of the store may
still delete and replace values: then members wait, or arrive again.
"""

import importlib
import json
from datetime import timedelta
from typing import Any, Optional

from .gang_key import compute_proof, is_proof

_CONNECT_SECONDS = 5.0
_NONCE_KEY = "nonce"


class Stores:
    """Makes torch's stores. Every failure of a store is a RuntimeError."""

    def serve(self, address: str, port: int) -> Any:
        """Serve a store in this process; port 0 is any."""
        return self._open(address, port, is_master=True)

    def connect(self, address: str, port: int) -> Any:
        """Connect to a store."""
        return self._open(address, port, is_master=False)

    def prefix(self, name: str, store: Any) -> Any:
        """Make the part of a store whose keys begin with this name."""
        return _import_distributed().PrefixStore(name, store)

    def _open(self, address: str, port: int, *, is_master: bool) -> Any:
        return _import_distributed().TCPStore(
            address,
            port,
            is_master=is_master,
            timeout=timedelta(seconds=_CONNECT_SECONDS),
            wait_for_workers=False,
        )


class ForgedError(RuntimeError):
    """A value in the store was not written with this attempt's gang key."""


class Control:
    """The values of members in rank 0's store. ``write`` signs them, ``read`` checks that.

    Every failure is a RuntimeError, as of a store.
    """

    def __init__(self, store: Any, key: Optional[bytes], *scope: str) -> None:
        """Use a store; without a ``key`` nothing is signed. Signatures cover ``scope``, too."""
        self.store = store
        self.add, self.check, self.delete_key = store.add, store.check, store.delete_key
        self._key = key
        self._scope = scope

    def open(self, number: str) -> None:
        """As rank 0: write the number of this store, also if another client has changed it."""
        if self._key is not None:
            self._scope += (number,)
            self.store.set(_NONCE_KEY, number)

    def join(self) -> None:
        """As another member: read the number of this store."""
        if self._key is not None:
            if not self.check([_NONCE_KEY]):
                raise RuntimeError("rank 0 has not begun, or has no gang key")
            self._scope += (self.store.get(_NONCE_KEY).decode("utf-8", "replace"),)

    def write(self, name: str, value: Any) -> None:
        """Write a JSON value."""
        text = json.dumps(value)
        if self._key is not None:
            text = json.dumps({"value": text, "proof": self._sign(self._key, name, text)})
        self.store.set(name, text)

    def read(self, name: str) -> Any:
        """Read a JSON value of a member."""
        try:
            wire = json.loads(self.store.get(name).decode())
            if self._key is None:
                return wire
            text = str(wire["value"])
            if is_proof(wire["proof"], self._sign(self._key, name, text)):
                return json.loads(text)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass  # not of a member either
        raise ForgedError(f"{name} in the store was not written with this attempt's gang key")

    def _sign(self, key: bytes, name: str, text: str) -> str:
        return compute_proof(key, "torchrun", *self._scope, name, text)


def _import_distributed() -> Any:
    return importlib.import_module("torch.distributed")
