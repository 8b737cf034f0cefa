"""Finds the API server and the credentials of an agent, once at its start.

1. Kubeconfig: the file of ``$KUBECONFIG``, else ``~/.kube/config``. ``$KUBE_APISERVER_ADDRESS``
   overrides its server.
2. Without a kubeconfig: ``$KUBE_APISERVER_ADDRESS``, or the address that Kubernetes gives every
   Pod, with the Pod's service account.

``~/.kube/config`` is ignored in a Pod with a service account token, and if the directory of the
service account is set: the file belongs to a user (for example in a mounted home directory) and may
contain credentials for another cluster.
"""

import os
from typing import Mapping, Optional

from framework.agent.access import Access, AccessError, parse_address
from framework.api import constants


def load_access(env: Mapping[str, str]) -> Access:
    """Find the API server.

    Raises:
        AccessError: No address is configured, or the configuration is invalid.
    """
    address = env.get(constants.KUBE_APISERVER_ADDRESS_ENV, "")
    kubeconfig = _find_kubeconfig(env)
    if kubeconfig:
        from framework.agent.kubeconfig import load_kubeconfig

        return load_kubeconfig(kubeconfig, address)
    if address:
        return _load_service_account(env, address)
    host = env.get("KUBERNETES_SERVICE_HOST", "")
    port = env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError(
            "no API server is configured: run in a Pod, or set "
            f"${constants.KUBE_APISERVER_ADDRESS_ENV} or ${constants.KUBECONFIG_ENV}"
        )
    bracketed = f"[{host}]" if ":" in host else host
    return _load_service_account(env, f"https://{bracketed}:{port}")


def load_access_unless_dns(env: Mapping[str, str], *, may_use_dns: bool) -> Optional[Access]:
    """Find the API server; None if a Pod without credentials may use DNS instead.

    Raises:
        AccessError: As ``load_access``, if DNS may not be used.
    """
    try:
        access = load_access(env)
    except AccessError:
        if may_use_dns:
            return None
        raise
    return None if may_use_dns and not access.is_usable else access


def _load_service_account(env: Mapping[str, str], address: str) -> Access:
    tls, host, port, prefix = parse_address(address)
    directory = env.get(constants.SERVICE_ACCOUNT_DIR_ENV) or constants.SERVICE_ACCOUNT_DIR
    token_file = os.path.join(directory, "token")
    ca_file = os.path.join(directory, "ca.crt")
    return Access(
        host=host,
        port=port,
        tls=tls,
        path_prefix=prefix,
        token_file=token_file if os.path.exists(token_file) else "",
        ca_file=ca_file if os.path.exists(ca_file) else "",
    )


def _find_kubeconfig(env: Mapping[str, str]) -> Optional[str]:
    named = env.get(constants.KUBECONFIG_ENV, "")
    if named and os.path.exists(named):
        return named
    if env.get(constants.SERVICE_ACCOUNT_DIR_ENV) or _has_service_account(env):
        return None  # the Pod has an identity; ~/.kube/config belongs to a user
    home = env.get("HOME", "")
    usual = os.path.join(home, ".kube", "config") if home else ""
    return usual if usual and os.path.exists(usual) else None


def _has_service_account(env: Mapping[str, str]) -> bool:
    token_file = os.path.join(constants.SERVICE_ACCOUNT_DIR, "token")
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and os.path.exists(token_file)
