"""An API server as an agent reaches it: address, trust, identity.

Made by ``discovery`` and ``kubeconfig``; requests are made in ``connection``.
"""

from typing import Any, NamedTuple, Tuple

from framework.api import constants
from framework.api.text import describe_server, hide_secrets

_HTTP_PORT = 80
_HTTPS_PORT = 443
_MAX_PORT = 65535


class AccessError(Exception):
    """There is no usable way to the API server; the message names the setting and the remedy."""


class Access(NamedTuple):
    """Where the API server is and how to prove who we are. Never logged as a whole."""

    host: str
    port: int
    tls: bool
    path_prefix: str = ""
    server_name: str = ""
    token: str = ""
    token_file: str = ""
    ca_file: str = ""
    ca_pem: str = ""
    verify: bool = True
    client_cert_file: str = ""
    client_key_file: str = ""
    client_cert_pem: str = ""
    client_key_pem: str = ""

    @property
    def is_usable(self) -> bool:
        """Return whether it can be more than an anonymous request to a cluster's server."""
        has_token = bool(self.token or self.token_file)
        return has_token or bool(self.client_cert_file or self.client_cert_pem) or not self.tls

    @property
    def address(self) -> str:
        """The server as a URL for messages, without its path: that may be a secret."""
        scheme = "https" if self.tls else "http"
        return describe_server(f"{scheme}://{self.authority}{self.path_prefix}")

    @property
    def authority(self) -> str:
        """Host and port as the Host header wants them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def hide_secrets(self, body: bytes) -> bytes:
        """Take token and path out of an error's body: servers repeat the path of a request."""
        return hide_secrets(body, (self.path_prefix, self.token))

    def read_token(self) -> str:
        """Read the bearer token; "" without one. Read anew each time, because it is rotated."""
        if not self.token_file:
            return self.token
        try:
            with open(self.token_file, "rb", buffering=0) as file:
                return file.read().decode().strip()
        except (OSError, UnicodeDecodeError):
            return self.token  # in the middle of a rotation: the next request reads again

    def build_tls_context(self) -> Any:
        """Build the TLS context, which trusts the cluster's CA and nothing else.

        Raises:
            AccessError: A certificate or key cannot be read.
        """
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._load_trust(context, ssl.CERT_NONE)
            self._load_identity(context)
        except (OSError, ssl.SSLError, ValueError) as e:
            raise AccessError(
                "cannot load the certificates for {}: {}; check the CA file {} and the client "
                "certificate".format(self.address, e, self.ca_file or "(inline)")
            ) from e
        return context

    def _load_trust(self, context: Any, no_verification: Any) -> None:
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = no_verification  # insecure-skip-tls-verify was asked for
        elif self.ca_pem:
            context.load_verify_locations(cadata=self.ca_pem)
        elif self.ca_file:
            context.load_verify_locations(cafile=self.ca_file)
        else:
            context.load_default_certs()

    def _load_identity(self, context: Any) -> None:
        if self.client_cert_file:
            context.load_cert_chain(self.client_cert_file, self.client_key_file or None)
        elif self.client_cert_pem:
            _load_inline_identity(context, self.client_cert_pem + "\n" + self.client_key_pem)


def parse_address(address: str) -> Tuple[bool, str, int, str]:
    """Take ``[http[s]://]host[:port][/prefix]`` apart: (tls, host, port, prefix).

    Raises:
        AccessError: It is no such address.
    """
    scheme, found, rest = address.partition("://")
    if not found:
        scheme, rest = "http", address  # as client-go takes a bare host:port
    authority, _, path = rest.partition("/")
    host, port_text = _split_authority(authority)
    default_port = _HTTPS_PORT if scheme == "https" else _HTTP_PORT
    valid_port = not port_text or (port_text.isdigit() and 0 < int(port_text) <= _MAX_PORT)
    if scheme not in {"http", "https"} or not host or not valid_port or "@" in authority:
        raise AccessError(
            f"the API server address {describe_server(address)!r} must be http://HOST:PORT or "
            f"https://HOST:PORT; it comes from ${constants.KUBE_APISERVER_ADDRESS_ENV} or from the "
            "kubeconfig"
        )
    prefix = "/" + path.strip("/") if path.strip("/") else ""
    return scheme == "https", host, int(port_text or default_port), prefix


def _split_authority(authority: str) -> Tuple[str, str]:
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        return host, rest[1:]
    host, _, port = authority.partition(":")
    return host, port


def _load_inline_identity(context: Any, pem: str) -> None:
    # OpenSSL loads a chain from a file only; the file lives for this call and is ours alone.
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
