"""Server and credentials of a ``KubeClient``, from flags, environment, kubeconfig or the Pod.

This module reads files and opens no connection.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from framework.api import constants
from framework.api.text import describe_server
from framework.kube import kubeconfig
from framework.kube.kubeconfig import ConfigError, ExecPlugin

__all__ = ["ConfigError", "ExecPlugin", "KubeConfig", "NoServerError", "load_kube_config"]

_SERVICE_HOST_ENV = "KUBERNETES_SERVICE_HOST"
_SERVICE_PORT_ENV = "KUBERNETES_SERVICE_PORT"


class NoServerError(ConfigError):
    """There is no API server: no address, no kubeconfig, and the process is not in a Pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeConfig:
    """Server and credentials. The repr shows no secret."""

    server: str
    """``http[s]://HOST[:PORT][/PREFIX]``, without a slash at the end."""
    token: str | None = field(default=None, repr=False)
    """Bearer token."""
    token_file: str | None = None
    """File with the token; overrides ``token``, and is read again when it changes."""
    ca_file: str | None = None
    """File with CA certificates; without it and ``ca_pem``, those of the system are trusted."""
    ca_pem: str | None = field(default=None, repr=False)
    """CA certificates as PEM, trusted in addition to ``ca_file``."""
    client_cert_file: str | None = None
    """File with the client certificate."""
    client_key_file: str | None = None
    """File with the key of the client certificate."""
    client_cert_pem: str | None = field(default=None, repr=False)
    """Client certificate as PEM, if ``client_cert_file`` is None."""
    client_key_pem: str | None = field(default=None, repr=False)
    """Key of the client certificate as PEM, if ``client_key_file`` is None."""
    verify: bool = True
    """Whether the certificate of the server is verified."""
    tls_server_name: str | None = None
    """Name to expect in the server's certificate, None for the host of ``server``."""
    proxy_url: str | None = field(default=None, repr=False)
    """URL of a proxy; None for a direct connection."""
    exec_plugin: ExecPlugin | None = None
    """Program that prints a token; it runs without a token and after its expiry."""
    namespace: str = "default"
    """Default namespace."""


def load_kube_config(
    address: str | None,
    kubeconfig_path: str | None,
    env: Mapping[str, str],
    *,
    context: str | None = None,
) -> KubeConfig:
    """Find the API server.

    Precedence: the address is the argument, else ``$KUBE_APISERVER_ADDRESS``; the file is the
    argument, else ``$KUBECONFIG`` if it exists, else ``~/.kube/config`` if it exists. With both,
    the address replaces the file's server. With neither, the Pod's service account. ``context`` is
    one of the contexts of the file; None for its current one.

    Raises:
        ConfigError: no usable configuration; the message has the field and the remedy.
    """
    address = address or env.get(constants.KUBE_APISERVER_ADDRESS_ENV) or None
    paths = kubeconfig.find_paths(kubeconfig_path, env)
    if paths:
        config = _load_file(paths, address, context)
    elif context is not None:
        raise ConfigError("context", "no kubeconfig has contexts", "name one with --kubeconfig")
    elif address is not None:
        config = _load_address(address, env)
    else:
        config = _load_in_cluster(env)
    config = replace(config, server=_normalize_server(config))
    if config.proxy_url is None:
        config = replace(config, proxy_url=kubeconfig.find_proxy(config.server, env))
    return config


def _load_file(paths: list[Path], address: str | None, name: str | None) -> KubeConfig:
    merged = kubeconfig.read_merged(paths)
    context = kubeconfig.select_context(merged, name)
    cluster = kubeconfig.parse_cluster(merged, context, needs_server=address is None)
    user = kubeconfig.parse_user(merged, context)
    return KubeConfig(
        server=address or cluster.server,
        ca_file=cluster.ca_file,
        ca_pem=cluster.ca_pem,
        verify=cluster.verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
        token=user.token,
        token_file=user.token_file,
        client_cert_file=user.client_cert_file,
        client_key_file=user.client_key_file,
        client_cert_pem=user.client_cert_pem,
        client_key_pem=user.client_key_pem,
        exec_plugin=user.exec_plugin,
        namespace=context.namespace,
    )


def _load_address(address: str, env: Mapping[str, str]) -> KubeConfig:
    """Use the address alone; credentials only if the environment points at a directory of them."""
    directory = env.get(constants.SERVICE_ACCOUNT_DIR_ENV)
    if not directory:
        return KubeConfig(server=address)
    return replace(_load_service_account(Path(directory)), server=address)


def _load_in_cluster(env: Mapping[str, str]) -> KubeConfig:
    host, port = env.get(_SERVICE_HOST_ENV), env.get(_SERVICE_PORT_ENV)
    if not host or not port:
        raise NoServerError(
            "kubeApiServerAddress",
            "no API server given: no address, no kubeconfig file, and this is not a Pod "
            f"({_SERVICE_HOST_ENV} and {_SERVICE_PORT_ENV} are not set)",
            f"set {constants.KUBE_APISERVER_ADDRESS_ENV} or {constants.KUBECONFIG_ENV}, "
            "or create ~/.kube/config",
        )
    directory = Path(env.get(constants.SERVICE_ACCOUNT_DIR_ENV) or constants.SERVICE_ACCOUNT_DIR)
    if not (directory / "token").is_file():
        raise ConfigError(
            str(directory / "token"),
            "this Pod has no service account token",
            "give it a serviceAccountName and leave automountServiceAccountToken on",
        )
    netloc = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return replace(_load_service_account(directory), server=f"https://{netloc}")


def _load_service_account(directory: Path) -> KubeConfig:
    """Read the files that a kubelet mounts; each of the three may be absent."""
    token, ca, namespace = directory / "token", directory / "ca.crt", directory / "namespace"
    return KubeConfig(
        server="",
        token_file=str(token) if token.is_file() else None,
        ca_file=str(ca) if ca.is_file() else None,
        namespace=(
            kubeconfig.read_text(namespace, "namespace").strip() or "default"
            if namespace.is_file()
            else "default"
        ),
    )


def _normalize_server(config: KubeConfig) -> str:
    """Complete the server's address like client-go: without a scheme, TLS only if configured."""
    server = config.server.strip()
    if "://" not in server:
        has_tls = bool(
            config.ca_file
            or config.ca_pem
            or config.client_cert_file
            or config.client_cert_pem
            or not config.verify
        )
        server = f"{'https' if has_tls else 'http'}://{server}"
    try:
        parts = urlsplit(server)
        is_usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_usable = False
    else:
        is_usable = is_usable and parts.scheme in {"http", "https"} and not parts.query
    if not is_usable:
        raise ConfigError(
            "server",
            f"{describe_server(config.server)!r} is not the address of an API server",
            "write it as https://HOST:PORT",
        )
    return server.rstrip("/")
