"""Keys and certificates of a control plane, and of a node.

The openssl program creates them, because the standard library cannot.
"""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.machine.prerequisites import MissingPrerequisiteError

CURVE = "prime256v1"
DAYS = "7"
NAMES = (
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "IP:127.0.0.1",
    "IP:10.96.0.1",
)


@dataclass(frozen=True)
class Pki:
    """The files of a folder."""

    folder: Path
    """The folder."""
    ca_cert: Path
    """Certificate of the authority."""
    server_cert: Path
    """Serving certificate of the API server."""
    server_key: Path
    """Its private key."""
    service_account_key: Path
    """Private key that signs the tokens of service accounts."""
    service_account_public_key: Path
    """Its public key."""


def create_pki(folder: Path, *more_names: str) -> Pki:
    """Make a certificate authority, a serving certificate and the service accounts' key pair.

    Args:
        folder: removed and created again.
        more_names: further names of the server, for example ``IP:10.250.0.1``.
    """
    if shutil.which("openssl") is None:
        raise MissingPrerequisiteError("openssl not found: install the package openssl")
    folder.mkdir(mode=0o700)
    for name in ("ca", "sa"):
        _create_key(folder, name)
    _openssl(
        folder,
        f"req -x509 -new -key ca.key -subj /CN=test-ca -days {DAYS} -out ca.crt"
        " -addext keyUsage=critical,keyCertSign,cRLSign",
    )
    issue_certificate(folder, "server", "/CN=kube-apiserver", "serverAuth", *NAMES, *more_names)
    _openssl(folder, "ec -in sa.key -pubout -out sa.pub")
    return Pki(
        folder=folder,
        ca_cert=folder / "ca.crt",
        server_cert=folder / "server.crt",
        server_key=folder / "server.key",
        service_account_key=folder / "sa.key",
        service_account_public_key=folder / "sa.pub",
    )


def issue_certificate(folder: Path, name: str, subject: str, usage: str, *names: str) -> None:
    """Write NAME.key and NAME.crt, signed by the folder's authority.

    Args:
        folder: the folder of a ``Pki``.
        name: name of the two files.
        subject: for example ``/O=system:masters/CN=admin``.
        usage: serverAuth or clientAuth.
        names: names of a server, for example ``DNS:localhost``.
    """
    _create_key(folder, name)
    _openssl(folder, f"req -new -key {name}.key -subj {subject} -out {name}.csr")
    alternatives = f"subjectAltName={','.join(names)}\n" if names else ""
    (folder / f"{name}.ext").write_text(
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        f"extendedKeyUsage={usage}\n{alternatives}"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    _openssl(
        folder,
        f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days {DAYS}"
        f" -extfile {name}.ext -out {name}.crt",
    )


def build_server_context(pki: Pki) -> ssl.SSLContext:
    """Build the TLS settings of a server that shows the serving certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_cert, pki.server_key)
    return context


def _create_key(folder: Path, name: str) -> None:
    _openssl(folder, f"ecparam -name {CURVE} -genkey -noout -out {name}.key")


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, capture_output=True, check=True)
