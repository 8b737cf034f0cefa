"""The API resources that this project uses, and their paths.

Pure. Objects are raw dicts, because the Pod templates of a Framework may have fields that this
release does not know.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

from framework.api import constants

Object: TypeAlias = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""Header Accept for Tables: the server computes columns, and rows have their object's metadata."""
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""Header Accept for objects with only their metadata."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API, as discovery describes it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Return the ``apiVersion`` of objects of this resource."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Build the path of the collection, of one object or of an object's subresource.

        Args:
            namespace: None for a cluster-scoped resource, or for all namespaces of a collection.
            name: None for the collection.
            subresource: for example ``status``; only with a name.

        Raises:
            ValueError: the path would name another object. An empty name, for example, would turn
                the deletion of an object into the deletion of all.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} belong to no namespace, but got {namespace!r}")
        if namespace is None and self.namespaced and name is not None:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")
        if name is None and subresource is not None:
            raise ValueError(f"{self.plural}/{subresource} needs a name")
        parts = [root]
        if namespace is not None:
            parts += ("namespaces", _quote_segment(namespace, "namespace"))
        parts.append(self.plural)
        if name is not None:
            parts.append(_quote_segment(name, "name"))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


def _quote_segment(segment: str, part: str) -> str:
    """Quote a path segment; refuse a segment that a server or a proxy would remove."""
    if segment in {"", ".", ".."}:
        raise ValueError(f"{segment!r} is not a valid {part}")
    return quote(segment, safe="")


FRAMEWORKS = Resource(
    constants.GROUP,
    constants.VERSION,
    constants.FRAMEWORK_PLURAL,
    constants.FRAMEWORK_KIND,
    namespaced=True,
)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
TFJOBS = Resource("mlkube.io", "v1beta1", "tfjobs", "TfJob", namespaced=True)
TRAININGJOBS = Resource(
    "kai.alibabacloud.com", "v1alpha1", "trainingjobs", "TrainingJob", namespaced=True
)
SCALE_INS = Resource("kai.alibabacloud.com", "v1alpha1", "scaleins", "ScaleIn", namespaced=True)
SCALE_OUTS = Resource("kai.alibabacloud.com", "v1alpha1", "scaleouts", "ScaleOut", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
