"""TLS between members: both ends show the certificate of the attempt, and prove its key.

The controller creates certificate and key for each attempt and stores them in the Secret of the
gang key (docs/adr/0023-tls-of-the-gang.md). No name is checked: an end accepts only this
certificate.
"""

import os
import ssl
from typing import Mapping, NamedTuple

from framework.api import constants
from rendezvous.core.refusal import RefusedError
from rendezvous.site.peers.gang_key import DEFAULT_KEY_FILE, GangKeyError, read_gang_key

_MAX_PEM_LENGTH = 16 * 1024


class Credentials(NamedTuple):
    """The TLS context of an end, and the certificate that the other end must show."""

    context: ssl.SSLContext
    certificate: bytes
    """The certificate of the attempt, in DER."""


def load_credentials(attempt: str, env: Mapping[str, str], *, is_server: bool) -> Credentials:
    """Load the certificate of this attempt.

    Raises:
        RefusedError: It is not mounted or of another attempt, or this Python has no TLS 1.3.
    """
    try:
        key = read_gang_key(attempt, env)
    except GangKeyError as e:
        raise RefusedError(str(e)) from e
    folder = os.path.dirname(env.get("FB_GANG_KEY_FILE") or DEFAULT_KEY_FILE)
    if key is None:
        raise RefusedError(
            f"remote commands need the gang key: mount the Secret NAME-gang-key at {folder}"
        )
    if not ssl.HAS_TLSv1_3:
        raise RefusedError(
            f"remote commands need TLS 1.3, and this Python has {ssl.OPENSSL_VERSION}: use an "
            "image whose Python is built with OpenSSL 1.1.1 or newer"
        )
    certificate = os.path.join(folder, constants.GANG_CERTIFICATE)
    try:
        with open(certificate, encoding="ascii") as file:
            der = ssl.PEM_cert_to_DER_cert(file.read(_MAX_PEM_LENGTH))
        context = _build_context(
            certificate, os.path.join(folder, constants.GANG_CERTIFICATE_KEY), is_server=is_server
        )
    except (OSError, ValueError) as e:
        raise RefusedError(
            f"the certificate of the gang cannot be read: {e}; mount all keys of the Secret "
            "NAME-gang-key; controllers of other versions do not store it there"
        ) from e
    return Credentials(context, der)


def _build_context(certificate: str, key: str, *, is_server: bool) -> ssl.SSLContext:
    protocol = ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    # No session tickets: each connection must prove the key.
    context.options |= ssl.OP_NO_TICKET
    if hasattr(context, "num_tickets") and is_server:
        context.num_tickets = 0
    return context
