"""Builds the TLS context: which servers are trusted, and the client certificate.

It reads the files of the configuration and opens no connection.
"""

import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

from framework.kube.config import ConfigError, KubeConfig


def build_tls_context(config: KubeConfig) -> ssl.SSLContext:
    """Build the TLS context of one API server.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=config.ca_file, cadata=config.ca_pem)
    except (ssl.SSLError, OSError, ValueError) as e:
        raise ConfigError(
            config.ca_file or "certificate-authority-data",
            f"no usable CA certificate: {e}",
            "give the PEM file of the cluster's CA",
        ) from e
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Clusters' own CAs often lack the extensions that Python 3.13 began to demand.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _load_client_certificate(context, config)
    return context


def trust_present_ca(context: ssl.SSLContext, ca_file: str | None) -> None:
    """Also trust the certificates now in the CA file: the cluster's CA may have rotated."""
    if ca_file is not None:
        # A file that is just being replaced is read again after the next failure.
        with suppress(OSError):
            context.load_verify_locations(cafile=ca_file)


def _load_client_certificate(context: ssl.SSLContext, config: KubeConfig) -> None:
    """Load certificate and key; OpenSSL reads files only, so inline ones are written to files."""
    if config.client_cert_file is None and config.client_cert_pem is None:
        # A Pod uses a token, and its read-only root has no place for files.
        return
    try:
        # Only the owner can read the directory, which is removed at once.
        with tempfile.TemporaryDirectory() as directory:
            cert = config.client_cert_file or _write(
                directory, "cert", config.client_cert_pem or ""
            )
            key = config.client_key_file
            if key is None and config.client_key_pem is not None:
                key = _write(directory, "key", config.client_key_pem)
            context.load_cert_chain(cert, keyfile=key)
    except (ssl.SSLError, OSError) as e:
        raise ConfigError(
            config.client_cert_file or "client-certificate-data",
            f"no usable client certificate and key: {e}",
            "give a PEM certificate and the unencrypted PEM key that belongs to it",
        ) from e


def _write(directory: str, name: str, pem: str) -> str:
    path = Path(directory) / name
    path.write_text(pem, "ascii")
    return str(path)
