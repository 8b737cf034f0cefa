"""Makes the secrets of an attempt: the gang key, and a certificate with its private key.

The certificate is self-signed. Members accept only this certificate, so its names, serial number
and dates have no meaning. It is used as long as its Secret exists, which belongs to one attempt.
See docs/adr/0023-tls-of-the-gang.md.
"""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.core.objects.object_templates import GangSecrets
from framework.clock import KeySource

_NAME = "frameworkbarrier gang"
# The clocks of nodes may differ, so the certificate is valid at all times.
_NOT_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(9999, 12, 31, tzinfo=UTC)


def generate_gang_secrets(keys: KeySource) -> GangSecrets:
    """Generate new secrets."""
    private_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .sign(private_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return GangSecrets(
        key=keys.new_key(),
        certificate=certificate.public_bytes(pem).decode(),
        private_key=private_key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )
