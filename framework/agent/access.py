"""How an agent reaches the API server: address, trusted CA, credentials.

``discovery`` and ``kubeconfig`` build an ``Access``; ``connection`` sends the requests.
"""

from typing import Any, NamedTuple, Tuple

from framework.agent.addresses import MAX_PORT
from framework.api import constants
from framework.api.text import describe_server, hide_secrets

_HTTP_PORT = 80
_HTTPS_PORT = 443


class AccessError(Exception):
    """The API server cannot be used; the message names the setting and the remedy."""


class Access(NamedTuple):
    """Address and credentials of the API server. It contains secrets, so it is never logged.

    An empty text means "not set".
    """

    host: str
    """Name or IP address, without brackets."""
    port: int
    """TCP port."""
    tls: bool
    """Whether the server speaks HTTPS."""
    path_prefix: str = ""
    """Path before every request path. It may contain a secret."""
    server_name: str = ""
    """Name in the server's certificate, if it is not ``host``."""
    token: str = ""
    """Bearer token, used when ``token_file`` cannot be read."""
    token_file: str = ""
    """File with the bearer token. It is read for each request, because tokens are rotated."""
    ca_file: str = ""
    """File with the CA certificates that are trusted."""
    ca_pem: str = ""
    """CA certificates that are trusted, as PEM; before ``ca_file``."""
    verify: bool = True
    """Whether the server's certificate is verified."""
    client_cert_file: str = ""
    """File with the client certificate."""
    client_key_file: str = ""
    """File with the key of ``client_cert_file``."""
    client_cert_pem: str = ""
    """Client certificate as PEM, if ``client_cert_file`` is not set."""
    client_key_pem: str = ""
    """Key of ``client_cert_pem``, as PEM."""

    @property
    def is_usable(self) -> bool:
        """Return whether requests have credentials, or need none because there is no TLS."""
        has_token = bool(self.token or self.token_file)
        return has_token or bool(self.client_cert_file or self.client_cert_pem) or not self.tls

    @property
    def address(self) -> str:
        """The URL of the server for messages, without its path, which may be a secret."""
        scheme = "https" if self.tls else "http"
        return describe_server(f"{scheme}://{self.authority}{self.path_prefix}")

    @property
    def authority(self) -> str:
        """Host and port in the form of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def hide_secrets(self, body: bytes) -> bytes:
        """Replace token and path in the body of an error: servers repeat the request's path."""
        return hide_secrets(body, (self.path_prefix, self.token))

    def read_token(self) -> str:
        """Read the bearer token, or "". Tokens are rotated, so every call reads the file."""
        if not self.token_file:
            return self.token
        try:
            with open(self.token_file, "rb", buffering=0) as file:
                return file.read().decode().strip()
        except (OSError, UnicodeDecodeError):
            return self.token  # the file is being rotated; the next request reads it again

    def build_tls_context(self) -> Any:
        """Build the TLS context, which trusts the CA of the cluster only.

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
            context.verify_mode = no_verification  # insecure-skip-tls-verify of the kubeconfig
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


def _is_port(text: str) -> bool:
    # int() refuses some characters that are digits for str, and numbers of thousands of digits.
    is_short = len(text) <= len(str(MAX_PORT))
    return is_short and text.isascii() and text.isdigit() and 0 < int(text) <= MAX_PORT


def parse_address(address: str) -> Tuple[bool, str, int, str]:
    """Parse ``[http[s]://]host[:port][/prefix]`` into (tls, host, port, prefix).

    Raises:
        AccessError: The text has another form.
    """
    scheme, found, rest = address.partition("://")
    if not found:
        scheme, rest = "http", address  # client-go also uses HTTP for a bare host:port
    authority, _, path = rest.partition("/")
    host, port_text = _split_authority(authority)
    default_port = _HTTPS_PORT if scheme == "https" else _HTTP_PORT
    valid_port = not port_text or _is_port(port_text)
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
    # OpenSSL loads a chain from a file only. The file is private and removed after this call.
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
