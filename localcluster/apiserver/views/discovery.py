"""Discovery documents: the groups, versions and resources that the server has. Pure.

They are built for each request, because CRDs are created and deleted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import ResourceType

VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
ACCESS_REVIEW_GROUP = "authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Subresource:
    """The verbs of a subresource, and its kind if that differs from its parent."""

    verbs: tuple[str, ...]
    kind: str | None = None


SUBRESOURCES = {
    "status": Subresource(("get", "patch", "update")),
    "log": Subresource(("get",)),
    "exec": Subresource(("create", "get"), kind="PodExecOptions"),
    "portforward": Subresource(("create", "get"), kind="PodPortForwardOptions"),
    "binding": Subresource(("create",), kind="Binding"),
}

ACCESS_REVIEW = ResourceType(
    ACCESS_REVIEW_GROUP,
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreview",
    namespaced=False,
)
"""Reviews are not stored; the front answers them."""


class Discovery:
    """The documents for one state of the registry."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        """Describe ``types``, and the reviews the front answers itself."""
        self._groups: dict[str, dict[str, list[ResourceType]]] = {}
        for rt in (*types, ACCESS_REVIEW):
            self._groups.setdefault(rt.group, {}).setdefault(rt.version, []).append(rt)

    def api_versions(self, address: str) -> Object:
        """Return /api: the versions of the core group."""
        return {
            "kind": "APIVersions",
            "versions": list(self._groups.get("", {})),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def group_list(self) -> Object:
        """Return /apis: all named groups."""
        groups = [self._group(name) for name in self._groups if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> Object | None:
        """Return /apis/NAME, None if there is no such group."""
        if not name or name not in self._groups:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def _group(self, name: str) -> Object:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version}
            for version in self._groups[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def resource_list(self, group: str, version: str) -> Object | None:
        """Return /api/v1 or /apis/GROUP/VERSION, None if it is not served."""
        types = self._groups.get(group, {}).get(version)
        if types is None:
            return None
        resources: list[Object] = []
        for rt in types:
            resources += [_resource(rt), *_subresources(rt)]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": sorted(resources, key=lambda resource: str(resource["name"])),
        }


def subresources_of(rt: ResourceType) -> tuple[str, ...]:
    """Return the names of a resource's subresources, the front's own included."""
    own = ("exec", "log", "portforward") if rt.key == ("", "pods") else ()
    return tuple(sorted((*rt.subresources, *own)))


def _resource(rt: ResourceType) -> Object:
    resource: Object = {
        "name": rt.plural,
        "singularName": rt.singular,
        "namespaced": rt.namespaced,
        "kind": rt.kind,
        "verbs": ["create"] if rt is ACCESS_REVIEW else list(VERBS),
    }
    if rt.short_names:
        resource["shortNames"] = list(rt.short_names)
    if rt.categories:
        resource["categories"] = list(rt.categories)
    return resource


def _subresources(rt: ResourceType) -> Iterator[Object]:
    for name in subresources_of(rt):
        known = SUBRESOURCES[name]
        described: Object = {
            "name": f"{rt.plural}/{name}",
            "singularName": "",
            "namespaced": rt.namespaced,
            "kind": known.kind or rt.kind,
            "verbs": list(known.verbs),
        }
        yield described
