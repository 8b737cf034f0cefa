"""The DNS names of the cluster: Services, their Pods, and Pods by address. Pure.

It follows the DNS specification of Kubernetes, with one difference: there are no cluster addresses,
so the name of a Service resolves to its Pods, as if it were headless.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import TypeAlias

from framework.kube.resources import Object

CLUSTER_DOMAIN = "cluster.local"
_API_NAME = ("kubernetes", "default")
_TERMINAL = ("Succeeded", "Failed")
_NamespacedName: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an SRV record."""

    host: str
    port: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a name; all empty if only longer names have records."""

    addresses: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    alias: str = ""
    """Another name, outside of the cluster or in it."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A Pod of a Service."""

    host: str
    """Its name below the name of the Service."""
    addresses: tuple[str, ...]
    pod: Object


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

    def find(self, name: str) -> Records | None:
        """Return the records of a name below the cluster domain; None if there is no such name.

        Args:
            name: without the cluster domain: ``train.default.svc``; empty for the domain itself.
        """
        labels = name.lower().split(".") if name else []
        match labels[::-1]:
            case [] | ["svc"] | ["pod"]:
                return Records()
            case ["svc" | "pod", namespace]:
                return Records() if self._has_namespace(namespace) else None
            case ["pod", namespace, host]:
                return self._find_pod(namespace, host)
            case ["svc", namespace, service]:
                return self._find_service(namespace, service)
            case ["svc", namespace, service, host] if not host.startswith("_"):
                return self._find_host(namespace, service, host)
            case ["svc", namespace, service, *rest]:
                return self._find_ports(namespace, service, rest)
            case _:
                return None

    def _has_namespace(self, namespace: str) -> bool:
        known = {"default", *self._pods, *(service for service, _ in self._services)}
        return namespace in known

    def _find_pod(self, namespace: str, host: str) -> Records | None:
        """Find the address in a Pod's name; the Pod need not exist, as in every cluster."""
        if not self._has_namespace(namespace):
            return None
        try:
            return Records((str(IPv4Address(host.replace("-", "."))),))
        except ValueError:
            return None

    def _find_service(self, namespace: str, name: str) -> Records | None:
        if (name, namespace) == _API_NAME and self.api_address:
            return Records((self.api_address,))
        service = self._services.get((namespace, name))
        if service is None:
            return None
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return Records(alias=spec.get("externalName") or "")
        endpoints = self._list_endpoints(service)
        if not endpoints and spec.get("clusterIP") == "None":
            return None
        targets = [t for port in spec.get("ports") or () for t in _aim(service, endpoints, port)]
        return Records(_join(endpoint.addresses for endpoint in endpoints), tuple(targets))

    def _find_host(self, namespace: str, name: str, host: str) -> Records | None:
        service = self._services.get((namespace, name))
        endpoints = [] if service is None else self._list_endpoints(service)
        found = [endpoint.addresses for endpoint in endpoints if endpoint.host == host]
        return Records(_join(found)) if found else None

    def _find_ports(self, namespace: str, name: str, rest: list[str]) -> Records | None:
        """Find ``_PORT._PROTOCOL``, or the ``_PROTOCOL`` that such names end with."""
        service = self._services.get((namespace, name))
        if service is None:
            return None
        protocol, *names = rest
        ports = [
            port
            for port in service["spec"].get("ports") or ()
            if protocol == "_" + str(port.get("protocol") or "TCP").lower()
        ]
        if not names:
            return Records() if ports else None
        named = [port for port in ports if names == ["_" + str(port.get("name") or "")]]
        endpoints = self._list_endpoints(service)
        targets = [target for port in named for target in _aim(service, endpoints, port)]
        return Records(targets=tuple(targets)) if targets else None

    def _list_endpoints(self, service: Object) -> list[_Endpoint]:
        namespace, name = _identify(service)
        selector = service["spec"].get("selector") or {}
        publishes_all = bool(service["spec"].get("publishNotReadyAddresses"))
        endpoints = []
        for pod in self._pods.get(namespace, {}).values():
            addresses = _list_addresses(pod)
            is_meant = bool(selector) and _matches(pod, selector)
            if is_meant and addresses and (publishes_all or _is_ready(pod)):
                spec = pod["spec"]
                has_name = spec.get("hostname") and spec.get("subdomain") == name
                host = spec["hostname"] if has_name else _name_by_address(addresses[0])
                endpoints.append(_Endpoint(host, addresses, pod))
        return endpoints


def _identify(obj: Object) -> _NamespacedName:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _matches(pod: Object, selector: Mapping[str, str]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _list_addresses(pod: Object) -> tuple[str, ...]:
    """List the addresses of a Pod that has not ended."""
    status = pod.get("status") or {}
    if status.get("phase") in _TERMINAL:
        return ()
    stated = [entry["ip"] for entry in status.get("podIPs") or () if entry.get("ip")]
    return tuple(stated or ([status["podIP"]] if status.get("podIP") else []))


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def _name_by_address(address: str) -> str:
    return ip_address(address).exploded.replace(":", "-").replace(".", "-")


def _join(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(address for part in parts for address in part))


def _aim(service: Object, endpoints: Iterable[_Endpoint], port: Object) -> Iterator[Target]:
    """Yield the SRV targets of a Service's port: each Pod, with the port it listens on."""
    namespace, name = _identify(service)
    for endpoint in endpoints:
        number = _resolve_port(endpoint.pod, port)
        if number is not None:
            host = f"{endpoint.host}.{name}.{namespace}.svc.{CLUSTER_DOMAIN}"
            yield Target(host, number, endpoint.addresses)


def _resolve_port(pod: Object, port: Object) -> int | None:
    wanted = port.get("targetPort") or port["port"]
    if isinstance(wanted, int):
        return wanted
    for container in pod["spec"].get("containers") or ():
        for stated in container.get("ports") or ():
            if stated.get("name") == wanted:
                return int(stated["containerPort"])
    return None
