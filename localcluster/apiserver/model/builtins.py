"""The built-in resource types: the part of Kubernetes this project touches.

Read once by ``storage``. A type that is not here is answered with 404.
"""

from collections.abc import Iterator

from localcluster.apiserver.model.registry import ResourceType

CORE = ""
POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

PODS = ResourceType(
    CORE,
    "v1",
    "pods",
    "Pod",
    "pod",
    "PodList",
    short_names=("po",),
    categories=("all",),
    subresources=("status", "binding"),
    wire_type="Pod",
    selectable_fields=POD_FIELDS,
    has_generation=True,
    returns_deleted=True,
)
CONFIG_MAPS = ResourceType(
    CORE,
    "v1",
    "configmaps",
    "ConfigMap",
    "configmap",
    "ConfigMapList",
    short_names=("cm",),
    wire_type="ConfigMap",
)
SECRETS = ResourceType(
    CORE,
    "v1",
    "secrets",
    "Secret",
    "secret",
    "SecretList",
    wire_type="Secret",
    selectable_fields=("type",),
)
SERVICES = ResourceType(
    CORE,
    "v1",
    "services",
    "Service",
    "service",
    "ServiceList",
    short_names=("svc",),
    categories=("all",),
    subresources=("status",),
    wire_type="Service",
    selectable_fields=("spec.clusterIP", "spec.type"),
    returns_deleted=True,
)
SERVICE_ACCOUNTS = ResourceType(
    CORE,
    "v1",
    "serviceaccounts",
    "ServiceAccount",
    "serviceaccount",
    "ServiceAccountList",
    short_names=("sa",),
    wire_type="ServiceAccount",
    returns_deleted=True,
)
EVENTS = ResourceType(
    CORE,
    "v1",
    "events",
    "Event",
    "event",
    "EventList",
    short_names=("ev",),
    wire_type="Event",
    creates_on_update=True,
    selectable_fields=EVENT_FIELDS,
    collects_garbage=False,
)
NAMESPACES = ResourceType(
    CORE,
    "v1",
    "namespaces",
    "Namespace",
    "namespace",
    "NamespaceList",
    namespaced=False,
    short_names=("ns",),
    subresources=("status",),
    wire_type="Namespace",
    selectable_fields=("status.phase",),
)
NODES = ResourceType(
    CORE,
    "v1",
    "nodes",
    "Node",
    "node",
    "NodeList",
    namespaced=False,
    short_names=("no",),
    subresources=("status",),
    wire_type="Node",
    selectable_fields=("spec.unschedulable",),
)
ENDPOINTS = ResourceType(
    CORE,
    "v1",
    "endpoints",
    "Endpoints",
    "endpoints",
    "EndpointsList",
    short_names=("ep",),
    wire_type="Endpoints",
    creates_on_update=True,
)
LEASES = ResourceType(
    "coordination.k8s.io",
    "v1",
    "leases",
    "Lease",
    "lease",
    "LeaseList",
    wire_type="Lease",
    creates_on_update=True,
    allows_unconditional_update=False,
)
CUSTOM_RESOURCE_DEFINITIONS = ResourceType(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "customresourcedefinition",
    "CustomResourceDefinitionList",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=("status",),
    wire_type="CustomResourceDefinition",
    has_generation=True,
    allows_unconditional_update=False,
)
PRIORITY_CLASSES = ResourceType(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    "priorityclass",
    "PriorityClassList",
    namespaced=False,
    short_names=("pc",),
    wire_type="PriorityClass",
    has_generation=True,
)
NETWORK_POLICIES = ResourceType(
    "networking.k8s.io",
    "v1",
    "networkpolicies",
    "NetworkPolicy",
    "networkpolicy",
    "NetworkPolicyList",
    short_names=("netpol",),
    wire_type="NetworkPolicy",
    has_generation=True,
)
ENDPOINT_SLICES = ResourceType(
    "discovery.k8s.io",
    "v1",
    "endpointslices",
    "EndpointSlice",
    "endpointslice",
    "EndpointSliceList",
    wire_type="EndpointSlice",
    has_generation=True,
)


def _rbac_types() -> Iterator[ResourceType]:
    for kind, namespaced in (
        ("Role", True),
        ("RoleBinding", True),
        ("ClusterRole", False),
        ("ClusterRoleBinding", False),
    ):
        singular = kind.lower()
        yield ResourceType(
            "rbac.authorization.k8s.io",
            "v1",
            singular + "s",
            kind,
            singular,
            kind + "List",
            namespaced=namespaced,
            wire_type=kind,
            creates_on_update=True,
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
    ENDPOINTS,
    LEASES,
    CUSTOM_RESOURCE_DEFINITIONS,
    *_rbac_types(),
    PRIORITY_CLASSES,
    NETWORK_POLICIES,
    ENDPOINT_SLICES,
)
