"""What agents need beside a Framework and in its Pods: account, rights, Service, token. Pure.

`framework inject` and the compile steps of other kinds add them. The rights are those of
deploy/agents/one-framework (a test compares the two). All objects carry two labels, by which a
later injection recognizes them (``is_added``).
"""

from collections.abc import Iterator
from typing import Any

from framework.api import constants, naming
from framework.kinds.compiled import Object

ACCOUNT = "frameworkbarrier"
ACCOUNT_PREFIX = f"{ACCOUNT}-"
VOLUME = "frameworkbarrier-volume"
TOKEN_VOLUME = "frameworkbarrier-token"
KEY_VOLUME = "frameworkbarrier-gang-key"
# Where agents and the module `peers` look for it; a test compares the two.
_KEY_DIR = "/var/run/frameworkbarrier"
_TOKEN_SECONDS = 600
# An agent takes 20 MB of memory, and little CPU time, because it mostly waits.
AGENT_RESOURCES = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"cpu": "1", "memory": "128Mi"},
}
# The ClusterRole of deploy/admission; a policy limits the accounts that have it.
_ACKNOWLEDGE_ROLE = "frameworkbarrier-acknowledge"
_RBAC = "rbac.authorization.k8s.io"
_LABELS = {
    "app.kubernetes.io/name": "frameworkbarrier",
    "app.kubernetes.io/part-of": "frameworkbarrier",
}


def is_added(body: Object) -> bool:
    """Return whether an object has the labels of those that an injection adds."""
    labels = (body.get("metadata") or {}).get("labels") or {}
    return _LABELS.items() <= labels.items()


def build_rights(framework: Object, accounts: list[str], *, reports: bool) -> Iterator[Object]:
    """Build account, Role and RoleBinding; an account of the user's own is only bound."""
    name = ACCOUNT_PREFIX + framework["metadata"]["name"]
    if name in accounts:
        yield _build_object(framework, "v1", "ServiceAccount", name)
    yield from _build_role(framework, name, _build_rules(framework), accounts)
    if reports:
        # No Framework's name holds a colon: with a dash this would be the RoleBinding of the
        # Framework `NAME-acknowledge`.
        role = ("ClusterRole", _ACKNOWLEDGE_ROLE)
        yield _build_binding(framework, f"{name}:acknowledge", role, accounts)


def build_past_rights(framework: Object) -> Iterator[Object]:
    """Build the rights that earlier releases gave to a role that drains, to remove them."""
    for kind in ("Role", "RoleBinding"):
        name = f"{ACCOUNT_PREFIX}{framework['metadata']['name']}:drain"
        yield _build_object(framework, f"{_RBAC}/v1", kind, name)


def _build_rules(framework: Object) -> list[Object]:
    name = framework["metadata"]["name"]
    return [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [f"{name}-attempt"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": [constants.GROUP],
            "resources": [constants.FRAMEWORK_PLURAL],
            "resourceNames": [name],
            "verbs": ["get"],
        },
    ]


def _build_role(
    framework: Object, name: str, rules: list[Object], accounts: list[str]
) -> Iterator[Object]:
    yield {**_build_object(framework, f"{_RBAC}/v1", "Role", name), "rules": rules}
    yield _build_binding(framework, name, ("Role", name), accounts)


def _build_binding(
    framework: Object, name: str, role: tuple[str, str], accounts: list[str]
) -> Object:
    kind, role_name = role
    return {
        **_build_object(framework, f"{_RBAC}/v1", "RoleBinding", name),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role_name},
        "subjects": [{"kind": "ServiceAccount", "name": account} for account in accounts],
    }


def build_service(framework: Object) -> Object:
    """Build the headless Service.

    It has the addresses of unready Pods, too: a Pod is not ready while its barrier waits.
    """
    name = framework["metadata"]["name"]
    return {
        **_build_object(framework, "v1", "Service", name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {constants.FRAMEWORK_NAME: name},
        },
    }


def _build_object(framework: Object, api_version: str, kind: str, name: str) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": dict(_LABELS)}
    if framework["metadata"].get("namespace"):
        metadata["namespace"] = framework["metadata"]["namespace"]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def build_key_volume() -> Object:
    """Build the volume with the gang key, which the controller creates for this reference."""
    secret = naming.build_gang_key_name(f"{{{{{constants.FRAMEWORK_NAME}}}}}")
    return {"name": KEY_VOLUME, "secret": {"secretName": secret}}


def build_key_mount() -> Object:
    """Build the mount of that volume."""
    return {"name": KEY_VOLUME, "mountPath": _KEY_DIR, "readOnly": True}


def build_token_volume() -> Object:
    """Build the volume that Kubernetes adds to other Pods, with a token valid for ten minutes."""
    field = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {"downwardAPI": {"items": [field]}},
            ]
        },
    }
