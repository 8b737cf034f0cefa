"""The contents of a Pod's volumes, and where they are mounted. Pure.

``list_volume_references`` names the ConfigMaps and Secrets to read first.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.api.constants import SERVICE_ACCOUNT_DIR
from framework.kube.resources import CONFIGMAPS, SECRETS, Object
from localcluster.kubelet.environment import Reference, Sources, read_entries
from localcluster.kubelet.fields import (
    FieldError,
    PodFacts,
    expand,
    resolve_field,
    resolve_resource,
)

DEFAULT_FILE_MODE = 0o644
EMPTY_DIR_MODE = 0o777
SERVICE_ACCOUNT_VOLUME = "kube-api-access"


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """One file of a volume."""

    path: str
    """Relative to the volume."""
    content: bytes
    mode: int = DEFAULT_FILE_MODE


@dataclass(frozen=True, slots=True)
class DirectoryVolume:
    """A directory that belongs to the Pod."""

    files: tuple[VolumeFile, ...] = ()
    is_read_only: bool = False
    """Always mounted read-only, as the kubelet does with all generated volumes."""


@dataclass(frozen=True, slots=True)
class HostVolume:
    """A path of the host."""

    path: str
    kind: str
    """``hostPath.type``: empty, Directory, DirectoryOrCreate, File, FileOrCreate, Socket, ..."""


Volume = DirectoryVolume | HostVolume


@dataclass(frozen=True, slots=True)
class MountPlan:
    """One volume in one container."""

    volume: str
    sub_path: str
    target: str
    read_only: bool


def list_volume_references(pod: Object) -> set[Reference]:
    """List the objects that a Pod's volumes refer to."""
    found: set[Reference] = set()
    for volume in pod["spec"].get("volumes") or ():
        if "configMap" in volume:
            found.add((CONFIGMAPS, volume["configMap"]["name"]))
        if "secret" in volume:
            found.add((SECRETS, volume["secret"]["secretName"]))
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "configMap" in source:
                found.add((CONFIGMAPS, source["configMap"]["name"]))
            if "secret" in source:
                found.add((SECRETS, source["secret"]["name"]))
    return found


def plan_volumes(
    facts: PodFacts, sources: Sources, account: Mapping[str, bytes]
) -> dict[str, Volume]:
    """Plan every volume of the Pod, and that of the service account.

    ``sources`` has the objects that ``list_volume_references`` lists; ``account`` the files
    ``token`` and ``namespace`` of the service account.
    """
    volumes: dict[str, Volume] = {}
    for volume in facts.pod["spec"].get("volumes") or ():
        try:
            volumes[volume["name"]] = _plan_volume(volume, facts, sources, account)
        except FieldError as e:
            raise FieldError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {e}') from e
    if facts.pod["spec"].get("automountServiceAccountToken", True):
        files = tuple(VolumeFile(path, content) for path, content in sorted(account.items()))
        volumes.setdefault(SERVICE_ACCOUNT_VOLUME, DirectoryVolume(files, is_read_only=True))
    return volumes


def _plan_volume(
    volume: Object, facts: PodFacts, sources: Sources, account: Mapping[str, bytes]
) -> Volume:
    if "emptyDir" in volume:
        return DirectoryVolume()
    if "hostPath" in volume:
        return HostVolume(volume["hostPath"]["path"], volume["hostPath"].get("type") or "")
    for field in ("configMap", "secret", "downwardAPI"):
        if field in volume:
            source = volume[field] or {}
            mode = source.get("defaultMode", DEFAULT_FILE_MODE)
            ref = source if field != "secret" else {**source, "name": source["secretName"]}
            files = tuple(_list_files(field, ref, mode, facts, sources, account))
            return DirectoryVolume(files, is_read_only=True)
    if "projected" in volume:
        projected = volume["projected"]
        mode = projected.get("defaultMode", DEFAULT_FILE_MODE)
        all_files = [
            file
            for source in projected.get("sources") or ()
            for field in source
            for file in _list_files(field, source[field], mode, facts, sources, account)
        ]
        return DirectoryVolume(tuple(all_files), is_read_only=True)
    kinds = ", ".join(sorted(set(volume) - {"name"})) or "of no kind"
    raise FieldError(f"the local cluster has no volumes {kinds}")


def _list_files(
    field: str,
    source: Object,
    mode: int,
    facts: PodFacts,
    sources: Sources,
    account: Mapping[str, bytes],
) -> Iterator[VolumeFile]:
    """Yield the files of one source of a projected volume, or of a volume of that kind."""
    if field == "serviceAccountToken":
        yield VolumeFile(_check_relative(source["path"]), account["token"], mode)
    elif field == "downwardAPI":
        for item in source.get("items") or ():
            yield _build_downward_file(item, mode, facts)
    elif field in {"configMap", "secret"}:
        resource = CONFIGMAPS if field == "configMap" else SECRETS
        entries = read_entries(sources, resource, source)
        items = source.get("items") or [{"key": key, "path": key} for key in sorted(entries)]
        for item in items:
            if item["key"] in entries:
                path = _check_relative(item["path"])
                yield VolumeFile(path, entries[item["key"]], item.get("mode", mode))
            elif not source.get("optional"):
                raise FieldError(f"references non-existent {field} key: {item['key']}")
    else:
        raise FieldError(f"the local cluster has no projected source {field}")


def _build_downward_file(item: Object, mode: int, facts: PodFacts) -> VolumeFile:
    if "fieldRef" in item:
        text = resolve_field(facts, item["fieldRef"]["fieldPath"])
    else:
        text = resolve_resource(facts, item["resourceFieldRef"], None)
    return VolumeFile(_check_relative(item["path"]), text.encode(), item.get("mode", mode))


def _check_relative(path: str) -> str:
    if posixpath.isabs(path) or ".." in path.split("/"):
        raise FieldError(f"path {path!r} must be relative and free of '..'")
    return path


def plan_mounts(
    container: Object, volumes: Mapping[str, Volume], variables: Mapping[str, str]
) -> list[MountPlan]:
    """Plan the mounts of a container; its environment is for ``subPathExpr``."""
    plans = []
    for mount in container.get("volumeMounts") or ():
        name = mount["name"]
        if name not in volumes:
            raise FieldError(f'volume "{name}" of container {container["name"]} does not exist')
        expression = mount.get("subPathExpr")
        sub_path = expand(expression, variables) if expression else mount.get("subPath") or ""
        volume = volumes[name]
        read_only = bool(mount.get("readOnly")) or (
            isinstance(volume, DirectoryVolume) and volume.is_read_only
        )
        target = posixpath.normpath("/" + mount["mountPath"].strip("/"))
        plans.append(MountPlan(name, _check_relative(sub_path), target, read_only))
    targets = {plan.target for plan in plans}
    if SERVICE_ACCOUNT_VOLUME in volumes and SERVICE_ACCOUNT_DIR not in targets:
        plans.append(MountPlan(SERVICE_ACCOUNT_VOLUME, "", SERVICE_ACCOUNT_DIR, read_only=True))
    return plans


def locate_volume(name: str, volume: Volume, directory: Path) -> Path:
    """Return the path of a volume on the host; ``directory`` has the Pod's own volumes."""
    return Path(volume.path) if isinstance(volume, HostVolume) else directory / name
