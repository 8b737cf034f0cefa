"""Makes the ssh key of a TrainingJob: an Ed25519 key under the names that its users expect.

The controller creates the Secret ``NAME-ssh`` with it, and ``framework run`` the Secret of a job
that is not run by the controller.

Only the body of the request that creates the Secret has the key. It is never logged, and never read
back.
"""

import base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from framework.kinds.compiled import Object

# The workers of each job have new host keys, so no client can have them in a file.
_CONFIG = b"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"


def add_key(secret: Object, key: str) -> Object:
    """Return the Secret with a key: ``id_rsa``, ``id_rsa.pub`` and ``config``.

    Args:
        secret: without its values.
        key: a new key of 32 bytes, in hexadecimal.
    """
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key))
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    files = {
        "id_rsa": private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        "id_rsa.pub": public + b"\n",
        "config": _CONFIG,
    }
    data = {name: base64.b64encode(content).decode("ascii") for name, content in files.items()}
    return {**secret, "data": data}
