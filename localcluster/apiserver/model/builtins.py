"""The built-in resource types of this server. A request for another type gets 404."""

from typing import Any

from localcluster.apiserver.model.registry import AGE, PrinterColumn, ResourceType

CORE = ""
POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "status.phase",
    "status.podIP",
)
EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "reason",
    "type",
)


def _build(group: str, plural: str, kind: str, **properties: Any) -> ResourceType:
    """Build a type in version v1 whose other names follow from its kind."""
    singular, list_kind = kind.lower(), f"{kind}List"
    return ResourceType(
        group, "v1", plural, kind, singular, list_kind, wire_type=kind, **properties
    )


PODS = _build(
    CORE,
    "pods",
    "Pod",
    short_names=("po",),
    categories=("all",),
    subresources=("status", "binding"),
    selectable_fields=POD_FIELDS,
    has_generation=True,
    returns_deleted=True,
)
CONFIG_MAPS = _build(CORE, "configmaps", "ConfigMap", short_names=("cm",))
SECRETS = _build(
    CORE,
    "secrets",
    "Secret",
    selectable_fields=("type",),
    printer_columns=(PrinterColumn("Type", json_path=".type"), AGE),
)
SERVICES = _build(
    CORE,
    "services",
    "Service",
    short_names=("svc",),
    categories=("all",),
    subresources=("status",),
    printer_columns=(
        PrinterColumn("Type", json_path=".spec.type"),
        PrinterColumn("Cluster-IP", json_path=".spec.clusterIP"),
        AGE,
    ),
    returns_deleted=True,
)
SERVICE_ACCOUNTS = _build(
    CORE, "serviceaccounts", "ServiceAccount", short_names=("sa",), returns_deleted=True
)
EVENTS = _build(
    CORE,
    "events",
    "Event",
    short_names=("ev",),
    selectable_fields=EVENT_FIELDS,
    collects_garbage=False,
)
NAMESPACES = _build(
    CORE,
    "namespaces",
    "Namespace",
    namespaced=False,
    short_names=("ns",),
    subresources=("status",),
    selectable_fields=("status.phase",),
    printer_columns=(PrinterColumn("Status", json_path=".status.phase"), AGE),
)
NODES = _build(
    CORE,
    "nodes",
    "Node",
    namespaced=False,
    short_names=("no",),
    subresources=("status",),
)
LEASES = _build(
    "coordination.k8s.io",
    "leases",
    "Lease",
    printer_columns=(PrinterColumn("Holder", json_path=".spec.holderIdentity"), AGE),
    allows_unconditional_update=False,
)
CUSTOM_RESOURCE_DEFINITIONS = _build(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=("status",),
    has_generation=True,
    allows_unconditional_update=False,
)
PRIORITY_CLASSES = _build(
    "scheduling.k8s.io",
    "priorityclasses",
    "PriorityClass",
    namespaced=False,
    short_names=("pc",),
    has_generation=True,
)
NETWORK_POLICIES = _build(
    "networking.k8s.io",
    "networkpolicies",
    "NetworkPolicy",
    short_names=("netpol",),
    has_generation=True,
)
DEPLOYMENTS = _build(
    "apps",
    "deployments",
    "Deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=("status",),
    has_generation=True,
)
_RBAC = tuple(
    _build(
        "rbac.authorization.k8s.io",
        f"{kind.lower()}s",
        kind,
        namespaced=not kind.startswith("Cluster"),
    )
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
)

BUILTIN_TYPES: tuple[ResourceType, ...] = (
    PODS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    EVENTS,
    NAMESPACES,
    NODES,
    LEASES,
    CUSTOM_RESOURCE_DEFINITIONS,
    *_RBAC,
    PRIORITY_CLASSES,
    NETWORK_POLICIES,
    DEPLOYMENTS,
)
