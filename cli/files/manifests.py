"""Reads the files that a user wants to run, and finds every fault before anything is applied.

It reads files and sends no request.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.exitcodes import CliError, ExitCode
from cli.files.documents import name_source, read_documents
from cli.files.fieldhints import describe_faults
from cli.files.kinds import NeededKey, expand
from cli.files.places import Place
from cli.files.templates import list_roles
from cli.files.validation import check_framework, refuse_lost_fields
from framework.api import constants
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.naming import is_namespace_name
from framework.kinds.catalog import is_scaler
from framework.kube import resources
from framework.kube.resources import Object, Resource
from framework.strictyaml import Document

_RBAC = "rbac.authorization.k8s.io"
_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
# In the order in which they are applied: an object comes after those that it refers to.
SUPPORTING = (
    resources.NAMESPACES,
    resources.SERVICE_ACCOUNTS,
    resources.CONFIGMAPS,
    resources.SECRETS,
    _CLAIMS,
    resources.SERVICES,
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_RBAC, "v1", "roles", "Role", namespaced=True),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced=True),
    _DEPLOYMENTS,
)
# Fields that the server writes: `kubectl get -o yaml` prints them, and a new object has none.
_SERVERS_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_NO_CLAIMS = "is not served by a local cluster: use an emptyDir or hostPath volume"
_NO_NAMESPACE = (
    "is not a valid namespace: use 1 to 63 characters of a-z, 0-9 and '-', beginning and ending "
    "with a letter or digit"
)
_BY_KIND = {(r.api_version, r.kind): r for r in (*SUPPORTING, resources.FRAMEWORKS)}
# Similarity (0 to 1) from which a kind is a misspelt one: Framwork, not Role for RoleQuota.
_NEAR_KIND = 0.85
_BY_FOLDED_KIND = {(version, kind.casefold()): r for (version, kind), r in _BY_KIND.items()}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply, and its place in the user's files."""

    resource: Resource
    namespace: str | None
    """None: cluster-scoped."""
    name: str
    body: Object
    place: Place

    @property
    def title(self) -> str:
        """Its name in messages: ``configmap/app``."""
        return f"{self.resource.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class KeySecret:
    """A Secret with an ssh key that the Pods of a Framework mount, and that no file has."""

    namespace: str
    """Namespace of the Framework and the Secret."""
    name: str
    """Name of the Secret."""
    framework: str
    """Name of the Framework, which is that of the TrainingJob in the file."""
    place: Place
    """Place of the TrainingJob in the user's files."""
    is_created: bool
    """Whether it is to be created if the cluster lacks it. A name that the user has chosen stands
    for a Secret that exists, except on a new local cluster."""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"secret/{self.name}"


@dataclass(frozen=True, slots=True)
class Manifests:
    """Everything the files ask for. ``warnings`` are messages for the user."""

    supporting: tuple[Manifest, ...]
    frameworks: tuple[Manifest, ...]
    warnings: tuple[str, ...]
    keys: tuple[KeySecret, ...] = ()


def load_manifests(
    files: Sequence[str],
    *,
    namespace: str | None,
    default_namespace: str,
    is_local: bool = False,
) -> Manifests:
    """Read and validate all files.

    Args:
        files: paths; ``-`` is standard input.
        namespace: of the option --namespace; an object of another namespace is a fault.
        default_namespace: for objects that name none.
        is_local: they will run on a local cluster, which has no volumes to claim.

    Raises:
        CliError: with every fault of every file.
    """
    if namespace and not is_namespace_name(namespace):
        raise CliError(ExitCode.USAGE, f"--namespace: {namespace!r} {_NO_NAMESPACE}")
    problems: list[str] = []
    warnings: list[str] = []
    found: list[Manifest] = []
    keys: list[NeededKey] = []
    for source, written in read_documents(files, problems):
        for place, document in expand(source, written, problems, warnings, keys):
            try:
                manifest = _read_manifest(document, place, namespace, default_namespace)
                if is_local and document is not written and manifest.resource is _DEPLOYMENTS:
                    continue  # TensorBoard: a note of the conversion says that it does not run.
                found.append(manifest)
                warnings += _check(manifest, is_local=is_local)
            except FieldErrors as e:
                problems += describe_faults(place, e, document.value)
    problems += _find_duplicates(found)
    frameworks = tuple(m for m in found if m.resource is resources.FRAMEWORKS)
    if not problems and not frameworks:
        problems.append(explain_no_framework(files, [m.resource.kind for m in found]))
    if problems:
        raise CliError(ExitCode.USAGE, *problems)
    if is_local:
        found += _build_namespaces(found)
    secrets = [_build_key(k, namespace or default_namespace, is_local=is_local) for k in keys]
    missing = _list_missing(secrets, found)
    return Manifests(_sort_supporting(found), frameworks, tuple(warnings), missing)


def _sort_supporting(found: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """Sort all objects but the Frameworks in the order in which they are applied."""
    order = {resource: index for index, resource in enumerate(SUPPORTING)}
    supporting = (m for m in found if m.resource is not resources.FRAMEWORKS)
    return tuple(sorted(supporting, key=lambda m: order[m.resource]))


def _list_missing(keys: Iterable[KeySecret], found: Sequence[Manifest]) -> tuple[KeySecret, ...]:
    """List the Secrets that no file has."""
    given = {(m.namespace, m.name) for m in found if m.resource is resources.SECRETS}
    return tuple(key for key in keys if (key.namespace, key.name) not in given)


def _build_key(key: NeededKey, default_namespace: str, *, is_local: bool) -> KeySecret:
    return KeySecret(
        key.namespace or default_namespace,
        key.secret,
        key.framework,
        key.place,
        is_created=is_local or not key.is_chosen,
    )


def explain_no_framework(files: Sequence[str], kinds: Collection[str] = ()) -> str:
    """Explain that there is no Framework in these files, and of which kinds their objects are."""
    found = f" (it has: {', '.join(sorted(set(kinds)))})" if kinds else ""
    return (
        f"{', '.join(map(name_source, files))}: no Framework in it{found}: give a file with an "
        f"object of kind {constants.FRAMEWORK_KIND}, apiVersion {constants.API_VERSION}"
    )


def read_objects(
    files: Sequence[str], notes: list[str] | None = None
) -> dict[str, list[tuple[Place, Object]]]:
    """Read the objects of all files, of any kind; each Framework among them is valid.

    Args:
        files: paths; ``-`` is standard input.
        notes: if given, TfJobs and TrainingJobs are replaced by Frameworks, and the notes about
            this are added here.

    Returns:
        By file, each object after its place: the file, and the line if it has several documents.

    Raises:
        CliError: with every fault of every file.
    """
    problems: list[str] = []
    objects = {file: list(_read_objects(file, problems, notes)) for file in dict.fromkeys(files)}
    if problems:
        raise CliError(ExitCode.USAGE, *problems)
    return objects


def _read_objects(
    file: str, problems: list[str], notes: list[str] | None
) -> Iterator[tuple[Place, Object]]:
    """Read one file. Several files may have variants of the same Framework."""
    frameworks: list[Manifest] = []
    documents = read_documents([file], problems)
    if notes is not None:
        documents = (
            each for place, written in documents for each in expand(place, written, problems, notes)
        )
    for place, document in documents:
        body = document.value
        try:
            if not isinstance(body, dict):
                raise _fault("", "must be an object with apiVersion, kind, metadata and spec")
            if body.get("kind") == constants.FRAMEWORK_KIND:
                framework = _read_manifest(document, place, None, "default")
                frameworks.append(framework)
                check_framework(framework.body, framework.place)
            elif body.get("apiVersion") == constants.API_VERSION:
                raise _fault("kind", f"is {body.get('kind')!r}; write {constants.FRAMEWORK_KIND}")
            yield place, body
        except FieldErrors as e:
            problems += describe_faults(place, e, document.value)
    problems += _find_duplicates(frameworks)


def _read_manifest(
    document: Document, place: Place, namespace: str | None, default_namespace: str
) -> Manifest:
    body = document.value
    if not isinstance(body, dict):
        raise _fault("", "must be an object with apiVersion, kind, metadata and spec")
    resource = _find_resource(body)
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise _fault("metadata", "must be an object with a name")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise _fault("metadata.name", "must be a string: give the object a name")
    metadata = {key: value for key, value in metadata.items() if key not in _SERVERS_METADATA}
    body = {**body, "metadata": metadata}
    if not resource.namespaced:
        return Manifest(resource, None, name, body, place)
    own = metadata.get("namespace")
    if own is not None and not isinstance(own, str):
        raise _fault("metadata.namespace", "must be text")
    if own and not is_namespace_name(own):
        raise _fault("metadata.namespace", f"{own!r} {_NO_NAMESPACE}")
    if namespace and own and own != namespace:
        raise _fault(
            "metadata.namespace",
            f"is {own!r}, but --namespace says {namespace!r}: remove one of them",
        )
    effective = own or namespace or default_namespace
    body = {**body, "metadata": {**metadata, "namespace": effective}}
    return Manifest(resource, effective, name, body, place)


def _find_resource(body: Mapping[str, Any]) -> Resource:
    api_version, kind = body.get("apiVersion"), body.get("kind")
    found = _BY_KIND.get((str(api_version), str(kind)))
    if found is not None:
        return found
    if kind == constants.FRAMEWORK_KIND:
        given = "missing" if api_version is None else repr(api_version)
        raise _fault("apiVersion", f"is {given}; write {constants.API_VERSION}")
    if kind is None:
        framework = constants.FRAMEWORK_KIND
        raise _fault("kind", f"is missing; a {framework} has `kind: {framework}`")
    meant = _BY_FOLDED_KIND.get((str(api_version), str(kind).casefold().removesuffix("s")))
    if meant is not None:
        raise _fault("kind", f"is {kind!r}; write {meant.kind}")
    if is_scaler(body):
        raise _fault("kind", _explain_scaler(str(kind)))
    kinds = sorted(resource.kind for resource in _BY_KIND.values())
    near = difflib.get_close_matches(str(kind), kinds, n=1, cutoff=_NEAR_KIND)
    remedy = f"did you mean {near[0]}? Else apply" if near else "apply"
    raise _fault(
        "kind",
        f"{kind!r} of apiVersion {api_version!r} is not run by this command; {remedy} it with "
        f"kubectl before (known: {', '.join(kinds)})",
    )


def _explain_scaler(kind: str) -> str:
    return (
        f"{kind} scales a TrainingJob that runs, and this command runs Frameworks, also in place "
        "of TrainingJobs: apply the TrainingJob and then this file with kubectl, on the cluster "
        "of `framework local up` or where the controller has --kinds trainingjob; to scale a "
        "Framework, use `framework scale`"
    )


def _check(manifest: Manifest, *, is_local: bool) -> list[str]:
    """Refuse a faulty object; return warnings."""
    if is_local:
        _check_local(manifest)
    if manifest.resource is not resources.FRAMEWORKS:
        return []
    warnings = check_framework(manifest.body, manifest.place)
    refuse_lost_fields(manifest.body)
    return warnings


def _build_namespaces(found: Sequence[Manifest]) -> list[Manifest]:
    """Build the namespaces that the objects need and no file has: a local cluster is empty."""
    given = {m.name for m in found if m.resource is resources.NAMESPACES} | {"default"}
    wanted = {m.namespace: m.place for m in found if m.namespace and m.namespace not in given}
    return [
        Manifest(resources.NAMESPACES, None, name, _build_namespace(name), place)
        for name, place in wanted.items()
    ]


def _build_namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _check_local(manifest: Manifest) -> None:
    """Refuse objects that a local cluster does not serve."""
    if manifest.resource is _CLAIMS:
        raise _fault("kind", f"{_CLAIMS.kind} {_NO_CLAIMS}")
    if manifest.resource is _DEPLOYMENTS:
        raise _fault("kind", "Deployment is not run by a local cluster: leave it out")
    if manifest.resource is not resources.FRAMEWORKS:
        return
    errors = [
        FieldError(f"{volume.path}.persistentVolumeClaim", _NO_CLAIMS)
        for role in list_roles(manifest.body)
        for volume in role.list_volumes()
        if "persistentVolumeClaim" in volume.body
    ]
    if errors:
        raise FieldErrors(errors)


def _find_duplicates(found: Sequence[Manifest]) -> Iterator[str]:
    first: dict[tuple[Resource, str | None, str], Manifest] = {}
    for manifest in found:
        key = (manifest.resource, manifest.namespace, manifest.name)
        if key in first:
            yield f"{manifest.place}: {manifest.title} is also in {first[key].place}: keep one"
        first.setdefault(key, manifest)


def _fault(path: str, message: str) -> FieldErrors:
    return FieldErrors([FieldError(path, message)])
