"""Reads a kubeconfig, for agents that run outside a Pod.

Supported: server, CA, bearer token, client certificate, tls-server-name, insecure-skip-tls-verify.
Not supported: exec plugins. ``discovery`` imports this module when it needs it: its imports are
slow.
"""

import base64
import binascii
import json
import os
from typing import Any, Dict

from framework.agent.access import Access, AccessError, parse_address

_MAX_DEPTH = 100


def load_kubeconfig(path: str, address: str) -> Access:
    """Load the current context; ``address``, if not empty, overrides its server.

    Raises:
        AccessError: The file is unreadable, or lacks an entry that the current context names.
    """
    config = _parse(path)
    context = _pick(config, "contexts", "context", str(config.get("current-context") or ""), path)
    cluster = _pick(config, "clusters", "cluster", str(context.get("cluster") or ""), path)
    user: Dict[str, Any] = {}
    if context.get("user"):
        user = _pick(config, "users", "user", str(context["user"]), path)
    if "exec" in user or "auth-provider" in user:
        raise AccessError(
            "{}: user {!r} logs in by a plugin, which agents do not run; give it a token or a "
            "client certificate".format(path, context["user"])
        )
    tls, host, port, prefix = parse_address(address or str(cluster.get("server") or ""))
    base = os.path.dirname(os.path.abspath(path))
    return Access(
        host=host,
        port=port,
        tls=tls,
        path_prefix=prefix,
        server_name=str(cluster.get("tls-server-name") or ""),
        token=str(user.get("token") or ""),
        token_file=_resolve(base, user.get("tokenFile")),
        ca_file=_resolve(base, cluster.get("certificate-authority")),
        ca_pem=_decode(path, cluster, "certificate-authority-data"),
        verify=not cluster.get("insecure-skip-tls-verify"),
        client_cert_file=_resolve(base, user.get("client-certificate")),
        client_key_file=_resolve(base, user.get("client-key")),
        client_cert_pem=_decode(path, user, "client-certificate-data"),
        client_key_pem=_decode(path, user, "client-key-data"),
    )


def _parse(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as e:
        raise AccessError(f"cannot read the kubeconfig {path}: {e}") from e
    try:
        parsed = json.loads(text)  # JSON is YAML, and needs no PyYAML
    except ValueError:
        parsed = _parse_yaml(path, text)
    except RecursionError as e:
        raise AccessError(f"the kubeconfig {path} is nested too deeply") from e
    if not isinstance(parsed, dict):
        raise AccessError(f"the kubeconfig {path} is not a mapping")
    return parsed


def _parse_yaml(path: str, text: str) -> Any:
    try:
        import yaml
    except ImportError as e:
        raise AccessError(
            f"reading the kubeconfig {path} needs PyYAML, which is not installed here; write it "
            "as JSON (kubectl config view --raw -o json)"
        ) from e

    class Loader(yaml.SafeLoader):
        """Refuses aliases and deep nesting, which make parsing slow or its result large."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("it has an alias; write the value out")
            return super().compose_node(parent, index)

        def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803  (PyYAML's)
            if self.flow_level > _MAX_DEPTH:
                raise yaml.YAMLError("it is nested too deeply")
            super().fetch_flow_collection_start(TokenClass)

    try:
        return yaml.load(text, Loader)  # noqa: S506  (built on the safe loader)
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        raise AccessError(f"the kubeconfig {path} is not valid YAML: {e}") from e


def _pick(config: Dict[str, Any], plural: str, kind: str, name: str, path: str) -> Dict[str, Any]:
    for entry in config.get(plural) or ():
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(kind)
            return found if isinstance(found, dict) else {}
    raise AccessError(f"{path}: {kind} {name!r} is not in {plural}; check current-context")


def _resolve(base: str, path: Any) -> str:
    # Paths are relative to the kubeconfig, as for kubectl.
    return os.path.join(base, str(path)) if path else ""


def _decode(path: str, entry: Dict[str, Any], key: str) -> str:
    try:
        return base64.b64decode(entry.get(key) or "", validate=True).decode()
    except (binascii.Error, TypeError, ValueError) as e:
        raise AccessError(f"{path}: {key} is not base64 of PEM") from e
