"""Reads kubeconfig files: merge, current context, cluster, user.

The rules are those of kubectl: of several files, the first one with an entry wins; relative paths
are relative to their file; inline data wins over files. ``config`` decides the precedence between
flags, environment and Pod.
"""

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from framework.api import constants
from framework.strictyaml import ShallowLoader, load_document

_SHOWN_NAMES = 10
_SECTIONS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


class ConfigError(Exception):
    """The configuration is invalid.

    Attributes:
        field: the file or the field.
        problem: the fault.
        remedy: the remedy of the user.
    """

    def __init__(self, field_name: str, problem: str, remedy: str) -> None:
        """Write field, problem and remedy in one line."""
        super().__init__(f"{field_name}: {problem}; {remedy}")
        self.field = field_name
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A client-go credential plugin: a program that prints an ExecCredential."""

    spec: Mapping[str, Any] = field(repr=False)
    """The ``exec`` section of the kubeconfig's user, its command made absolute."""


class Entry(NamedTuple):
    """A named entry of a kubeconfig, and its file."""

    name: str
    fields: Mapping[str, Any]
    path: Path

    def at(self, section: str, key: str) -> str:
        """Return the path of a field of the entry, for a message."""
        return f"{self.path}: {section}[{self.name}].{key}"


class Merged(NamedTuple):
    """All files, merged."""

    paths: list[Path]
    current_context: str | None
    entries: Mapping[str, Mapping[str, Entry]]
    """By section, then by name."""


class Context(NamedTuple):
    """A context, and the names in it."""

    entry: Entry
    cluster: str
    user: str | None
    namespace: str


class Cluster(NamedTuple):
    """The used fields of a cluster."""

    server: str
    """URL of the API server."""
    ca_file: str | None
    """File with CA certificates."""
    ca_pem: str | None
    """CA certificates as PEM."""
    verify: bool
    """Whether the certificate of the server is verified."""
    tls_server_name: str | None
    """Name in the certificate of the server, if it is not the host of the URL."""
    proxy_url: str | None
    """URL of a proxy."""


class User(NamedTuple):
    """The used fields of a user."""

    token: str | None = None
    """Bearer token."""
    token_file: str | None = None
    """File with the bearer token."""
    client_cert_file: str | None = None
    """File with the client certificate."""
    client_key_file: str | None = None
    """File with the key of the client certificate."""
    client_cert_pem: str | None = None
    """Client certificate as PEM."""
    client_key_pem: str | None = None
    """Key of the client certificate as PEM."""
    exec_plugin: ExecPlugin | None = None
    """Program that prints a token."""


def find_paths(argument: str | None, env: Mapping[str, str]) -> list[Path]:
    """List the files to read: the argument, else those of the environment that exist.

    Raises:
        ConfigError: the file of the argument does not exist. A file of the environment may be
            missing, as with kubectl.
    """
    if argument:
        if not Path(argument).is_file():
            raise ConfigError(
                argument, "no such kubeconfig file", "check the path, or leave it out"
            )
        return [Path(argument)]
    named = [Path(p) for p in env.get(constants.KUBECONFIG_ENV, "").split(":") if p]
    existing = [path for path in named if path.is_file()]
    if existing or not env.get("HOME"):
        return existing
    default = Path(env["HOME"]) / ".kube" / "config"
    return [default] if default.is_file() else []


def read_merged(paths: list[Path]) -> Merged:
    """Read the files and merge them; the first entry of a name wins."""
    current: str | None = None
    entries: dict[str, dict[str, Entry]] = {section: {} for section, _ in _SECTIONS}
    for path in paths:
        document = _read_document(path)
        current = current or _optional_text(document, "current-context", str(path))
        for section, key in _SECTIONS:
            for entry in _read_section(document, section, key, path):
                entries[section].setdefault(entry.name, entry)
    return Merged(paths, current, entries)


def select_context(merged: Merged, name: str | None = None) -> Context:
    """Return the context of this name; the current one if None."""
    files = ", ".join(str(path) for path in merged.paths)
    field = f"{files}: current-context" if name is None else "context"
    name = name or merged.current_context
    if not name:
        raise ConfigError(
            f"{files}: current-context",
            "not set",
            "run `kubectl config use-context NAME`",
        )
    entry = _find(merged, "contexts", name, field)
    cluster = _optional_text(entry.fields, "cluster", entry.at("contexts", "cluster"))
    if not cluster:
        raise ConfigError(
            entry.at("contexts", "cluster"), "not set", "name one of the file's clusters"
        )
    user = _optional_text(entry.fields, "user", entry.at("contexts", "user"))
    namespace = _optional_text(entry.fields, "namespace", entry.at("contexts", "namespace"))
    return Context(entry, cluster, user, namespace or "default")


def parse_cluster(merged: Merged, context: Context, *, needs_server: bool) -> Cluster:
    """Return the current context's cluster."""
    entry = _find(merged, "clusters", context.cluster, context.entry.at("contexts", "cluster"))

    def text(key: str) -> str | None:
        return _optional_text(entry.fields, key, entry.at("clusters", key))

    server = text("server")
    if not server and needs_server:
        raise ConfigError(entry.at("clusters", "server"), "not set", "write https://HOST:PORT")
    verify = not entry.fields.get("insecure-skip-tls-verify", False)
    ca_pem = _decode_inline(entry, "clusters", "certificate-authority-data")
    ca_file = None if ca_pem else _locate(entry, "clusters", "certificate-authority")
    if not verify and (ca_pem or ca_file):
        raise ConfigError(
            entry.at("clusters", "insecure-skip-tls-verify"),
            "set together with a certificate authority",
            "remove one of the two",
        )
    return Cluster(
        server or "", ca_file, ca_pem, verify, text("tls-server-name"), text("proxy-url")
    )


def parse_user(merged: Merged, context: Context) -> User:
    """Return the current context's user, an anonymous one if it names none."""
    if context.user is None:
        return User()
    entry = _find(merged, "users", context.user, context.entry.at("contexts", "user"))
    _refuse_unsupported(entry)
    cert_pem = _decode_inline(entry, "users", "client-certificate-data")
    key_pem = _decode_inline(entry, "users", "client-key-data")
    cert_file = None if cert_pem else _locate(entry, "users", "client-certificate")
    key_file = None if key_pem else _locate(entry, "users", "client-key")
    if bool(cert_pem or cert_file) != bool(key_pem or key_file):
        raise ConfigError(
            entry.at("users", "client-certificate"),
            "a client certificate needs its key, and a key its certificate",
            "set both client-certificate and client-key",
        )
    token_file = _locate(entry, "users", "tokenFile")
    return User(
        token=_optional_text(entry.fields, "token", entry.at("users", "token")),
        token_file=token_file,
        client_cert_file=cert_file,
        client_key_file=key_file,
        client_cert_pem=cert_pem,
        client_key_pem=key_pem,
        exec_plugin=_parse_exec(entry),
    )


def read_text(path: Path, subject: str) -> str:
    """Read a small file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_text("utf-8")
    except OSError as e:
        raise ConfigError(
            str(path),
            f"cannot read {subject}: {e.strerror}",
            "check that it exists and is readable",
        ) from e
    except UnicodeDecodeError as e:
        raise ConfigError(str(path), f"{subject} is not UTF-8 text", "check the file") from e


def find_proxy(server: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment sets for this server, by the rules of curl."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127."):
        return None
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name)
    exempt = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if not proxy or any(_is_exempt(host, rule.strip()) for rule in exempt.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_exempt(host: str, rule: str) -> bool:
    """Return whether an entry of NO_PROXY (a domain, an address, a network, ``*``) names a host."""
    if rule in {"", "*"}:
        return rule == "*"
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        domain = rule.lstrip("*").lstrip(".").lower()
        return host == domain or host.endswith(f".{domain}")


def _read_document(path: Path) -> Mapping[str, Any]:
    try:
        document = load_document(read_text(path, "the kubeconfig"), ShallowLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        mark = getattr(e, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = f"not valid YAML{where}: {getattr(e, 'problem', None) or 'cannot parse it'}"
        raise ConfigError(str(path), problem, "write valid YAML or JSON") from e
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(str(path), "not a kubeconfig: no mapping at the top", "check the path")
    return document


def _read_section(document: Mapping[str, Any], section: str, key: str, path: Path) -> list[Entry]:
    entries: list[Entry] = []
    items = document.get(section) or []
    if not isinstance(items, list):
        raise ConfigError(f"{path}: {section}", "not a list", "write a list")
    for index, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ConfigError(f"{path}: {section}[{index}]", "has no name", "add one")
        fields = item.get(key) or {}
        if not isinstance(fields, dict):
            raise ConfigError(
                f"{path}: {section}[{item['name']}].{key}", "not a mapping", "write a mapping"
            )
        entries.append(Entry(item["name"], fields, path))
    return entries


def _find(merged: Merged, section: str, name: str, field_name: str) -> Entry:
    entry = merged.entries[section].get(name)
    if entry is None:
        raise ConfigError(
            field_name,
            f"{name!r} is not among the {section} of the file",
            _offer(name, list(merged.entries[section])),
        )
    return entry


def _offer(name: str, known: list[str]) -> str:
    """Offer names of a section, those most similar to a wrong name first."""
    if not known:
        return "there are none; name another file"
    near = get_close_matches(name, known, n=_SHOWN_NAMES)
    names = [*near, *sorted(set(known) - set(near))]
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"use one of these: {', '.join(names[:_SHOWN_NAMES])}{more}"


def _optional_text(fields: Mapping[str, Any], key: str, field_name: str) -> str | None:
    value = fields.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ConfigError(field_name, "not a string", "put it in quotes")
    return value


def _decode_inline(entry: Entry, section: str, key: str) -> str | None:
    text = _optional_text(entry.fields, key, entry.at(section, key))
    if text is None:
        return None
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("ascii")
    except (binascii.Error, ValueError) as e:
        raise ConfigError(
            entry.at(section, key), "not PEM text in base64", "encode the PEM file with base64"
        ) from e


def _locate(entry: Entry, section: str, key: str) -> str | None:
    """Return the absolute path in a field; check now that the file can be read."""
    text = _optional_text(entry.fields, key, entry.at(section, key))
    if text is None:
        return None
    path = entry.path.absolute().parent / text
    try:
        with path.open("rb"):
            pass
    except OSError as e:
        raise ConfigError(
            entry.at(section, key),
            f"cannot read {path}: {e.strerror}",
            "check that the file exists and is readable",
        ) from e
    return str(path)


def _refuse_unsupported(entry: Entry) -> None:
    if entry.fields.get("auth-provider"):
        raise ConfigError(
            entry.at("users", "auth-provider"),
            "auth providers were removed from Kubernetes clients",
            "use an exec plugin, for example gke-gcloud-auth-plugin or kubelogin",
        )
    if entry.fields.get("username") or entry.fields.get("password"):
        raise ConfigError(
            entry.at("users", "username"),
            "API servers no longer take a name and password",
            "use a token or a client certificate",
        )


def _parse_exec(entry: Entry) -> ExecPlugin | None:
    spec = entry.fields.get("exec")
    if not spec:
        return None
    if not isinstance(spec, dict):
        raise ConfigError(entry.at("users", "exec"), "not a mapping", "write a mapping")
    for key in ("command", "apiVersion"):
        if not isinstance(spec.get(key), str) or not spec[key]:
            raise ConfigError(entry.at("users", f"exec.{key}"), "not set", "set it")
    _check_exec_lists(entry, spec)
    command = spec["command"]
    if "/" in command:
        command = str(entry.path.absolute().parent / command)
    return ExecPlugin({**spec, "command": command})


def _check_exec_lists(entry: Entry, spec: Mapping[str, Any]) -> None:
    args, variables = spec.get("args") or [], spec.get("env") or []
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        raise ConfigError(
            entry.at("users", "exec.args"), "not a list of strings", "put each in quotes"
        )
    if not isinstance(variables, list) or not all(map(_is_variable, variables)):
        raise ConfigError(
            entry.at("users", "exec.env"),
            "not a list of name and value",
            "write each as {name: NAME, value: 'TEXT'}",
        )


def _is_variable(item: object) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(k), str) for k in ("name", "value"))
