"""The DNS names of the cluster: Services and their Pods. Pure.

It follows the DNS specification of Kubernetes, with these differences: there are no cluster
addresses, so the name of a Service resolves to its Pods, as if it were headless; there are no SRV
records, no aliases of Services (ExternalName), and no names of Pods by their address outside of a
Service.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from framework.kube.resources import Object

CLUSTER_DOMAIN = "cluster.local"
_API_NAME = ("kubernetes", "default")
_TERMINAL = ("Succeeded", "Failed")
_NamespacedName: TypeAlias = tuple[str, str]
Addresses: TypeAlias = tuple[str, ...]
"""The addresses of a name; empty if only longer names have some."""


class ClusterNames:
    """All names below the cluster domain."""

    def __init__(self) -> None:
        """Start with only the API server, whose address is set later."""
        self.api_address = ""
        self._services: dict[_NamespacedName, Object] = {}
        self._pods: dict[str, dict[str, Object]] = {}

    # --- Changes of objects ---------------------------------------------------------------------

    def replace_pods(self, pods: Iterable[Object]) -> None:
        """Take the list of all Pods."""
        self._pods = {}
        for pod in pods:
            self.set_pod(pod)

    def set_pod(self, pod: Object) -> None:
        """Take the present state of a Pod."""
        metadata = pod["metadata"]
        self._pods.setdefault(metadata["namespace"], {})[metadata["uid"]] = pod

    def remove_pod(self, pod: Object) -> None:
        """Forget a Pod."""
        metadata = pod["metadata"]
        pods = self._pods.get(metadata["namespace"], {})
        pods.pop(metadata["uid"], None)
        if not pods:
            self._pods.pop(metadata["namespace"], None)

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take the list of all Services."""
        del resource_version
        self._services = {_identify(service): service for service in items}

    def apply(self, event_type: str, obj: Object) -> None:
        """Take a change of a Service."""
        if event_type == "DELETED":
            self._services.pop(_identify(obj), None)
        else:
            self._services[_identify(obj)] = obj

    def bookmark(self, resource_version: str) -> None:
        """Do nothing: Services are compared by name, not by version."""

    # --- Requests -------------------------------------------------------------------------------

    def find(self, name: str) -> Addresses | None:
        """Return the addresses of a name; None if there is no such name.

        The name is without the cluster domain: ``train.default.svc``; empty for the domain itself.
        """
        labels = name.lower().split(".") if name else []
        match labels[::-1]:
            case [] | ["svc"]:
                return ()
            case ["svc", namespace]:
                return () if self._has_namespace(namespace) else None
            case ["svc", namespace, service]:
                return self._find_service(namespace, service)
            case ["svc", namespace, service, host]:
                return self._find_host(namespace, service, host)
            case _:
                return None

    def _has_namespace(self, namespace: str) -> bool:
        known = {"default", *self._pods, *(service for service, _ in self._services)}
        return namespace in known

    def _find_service(self, namespace: str, name: str) -> Addresses | None:
        if (name, namespace) == _API_NAME and self.api_address:
            return (self.api_address,)
        service = self._services.get((namespace, name))
        if service is None:
            return None
        addresses = tuple(address for _, address in self._list_endpoints(service))
        if not addresses and service["spec"].get("clusterIP") == "None":
            return None
        return addresses

    def _find_host(self, namespace: str, name: str, host: str) -> Addresses | None:
        service = self._services.get((namespace, name))
        endpoints = () if service is None else self._list_endpoints(service)
        return tuple(address for own, address in endpoints if own == host) or None

    def _list_endpoints(self, service: Object) -> Iterator[tuple[str, str]]:
        """Yield the name, below the name of the Service, and the address of each of its Pods."""
        namespace, name = _identify(service)
        selector = service["spec"].get("selector") or {}
        publishes_all = bool(service["spec"].get("publishNotReadyAddresses"))
        for pod in self._pods.get(namespace, {}).values():
            address = _get_address(pod)
            is_meant = bool(selector) and _matches(pod, selector)
            if is_meant and address and (publishes_all or _is_ready(pod)):
                spec = pod["spec"]
                has_name = spec.get("hostname") and spec.get("subdomain") == name
                yield spec["hostname"] if has_name else address.replace(".", "-"), address


def _identify(obj: Object) -> _NamespacedName:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _matches(pod: Object, selector: Mapping[str, str]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _get_address(pod: Object) -> str | None:
    """Return the address of a Pod that has one and has not ended."""
    status = pod.get("status") or {}
    return None if status.get("phase") in _TERMINAL else status.get("podIP")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")
