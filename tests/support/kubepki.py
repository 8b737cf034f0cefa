"""Keys and certificates of one control plane. Called by ``tests.support.controlplane``.

Made by the openssl program, because the standard library makes none.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.kubebinaries import MissingPrerequisiteError

CURVE = "prime256v1"
DAYS = "7"
NAMES = (
    "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
    "IP:127.0.0.1,IP:10.96.0.1"
)


@dataclass(frozen=True)
class Pki:
    """The files of one folder."""

    ca_cert: Path
    server_cert: Path
    server_key: Path
    service_account_key: Path
    service_account_public_key: Path


def create_pki(folder: Path) -> Pki:
    """Make a certificate authority, a serving certificate and the service accounts' key pair."""
    if shutil.which("openssl") is None:
        raise MissingPrerequisiteError("openssl not found: install the package openssl")
    folder.mkdir(mode=0o700)
    for name in ("ca", "server", "sa"):
        _openssl(folder, f"ecparam -name {CURVE} -genkey -noout -out {name}.key")
    _openssl(
        folder,
        f"req -x509 -new -key ca.key -subj /CN=test-ca -days {DAYS} -out ca.crt"
        " -addext keyUsage=critical,keyCertSign,cRLSign",
    )
    _openssl(folder, "req -new -key server.key -subj /CN=kube-apiserver -out server.csr")
    (folder / "server.ext").write_text(
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        f"extendedKeyUsage=serverAuth\nsubjectAltName={NAMES}\n"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    _openssl(
        folder,
        f"x509 -req -in server.csr -CA ca.crt -CAkey ca.key -set_serial 2 -days {DAYS}"
        " -extfile server.ext -out server.crt",
    )
    _openssl(folder, "ec -in sa.key -pubout -out sa.pub")
    return Pki(
        ca_cert=folder / "ca.crt",
        server_cert=folder / "server.crt",
        server_key=folder / "server.key",
        service_account_key=folder / "sa.key",
        service_account_public_key=folder / "sa.pub",
    )


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, capture_output=True, check=True)
