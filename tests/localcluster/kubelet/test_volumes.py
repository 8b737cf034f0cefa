import base64
from pathlib import Path
from typing import Any

import pytest

from framework.api.constants import SERVICE_ACCOUNT_DIR
from framework.kube.resources import CONFIGMAPS, SECRETS, Object
from localcluster.kubelet.environment import Sources
from localcluster.kubelet.fields import FieldError, PodFacts
from localcluster.kubelet.volumes.pod_directory import PodDirectory
from localcluster.kubelet.volumes.volumes import (
    SERVICE_ACCOUNT_VOLUME,
    DirectoryVolume,
    HostVolume,
    MountPlan,
    Volume,
    VolumeFile,
    list_volume_references,
    plan_mounts,
    plan_volumes,
)

SOURCES: Sources = {
    (CONFIGMAPS, "conf"): {"data": {"a": "1", "b": "2"}},
    (SECRETS, "key"): {"data": {"k": base64.b64encode(b"pw").decode()}},
    (CONFIGMAPS, "none"): None,
}
ACCOUNT = {"token": b"tok", "namespace": b"ns"}


def build_facts(*volumes: Object, **spec: Any) -> PodFacts:
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"x": "y"}},
        "spec": {"containers": [{"name": "main"}], "volumes": list(volumes), **spec},
    }
    return PodFacts(pod, "local", "127.0.0.1", ("127.64.0.1",), {})


def plan(volume: Object) -> Volume:
    return plan_volumes(build_facts({"name": "v", **volume}), SOURCES, ACCOUNT)["v"]


def read_files(volume: Volume) -> dict[str, tuple[bytes, int]]:
    assert isinstance(volume, DirectoryVolume)
    return {file.path: (file.content, file.mode) for file in volume.files}


LABELS = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
CONF_0400 = {"configMap": {"name": "conf", "defaultMode": 0o400}}
ITEMS = [{"key": "b", "path": "deep/x", "mode": 0o755}]


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        (CONF_0400, {"a": (b"1", 0o400), "b": (b"2", 0o400)}),
        ({"configMap": {"name": "conf", "items": ITEMS}}, {"deep/x": (b"2", 0o755)}),
        ({"secret": {"secretName": "key"}}, {"k": (b"pw", 0o644)}),
        ({"downwardAPI": {"items": LABELS}}, {"labels": (b'x="y"', 0o644)}),
    ],
)
def test_plan_volumes_source_has_read_only_files(
    volume: Object, files: dict[str, tuple[bytes, int]]
) -> None:
    planned = plan(volume)
    assert read_files(planned) == files
    assert isinstance(planned, DirectoryVolume)
    assert planned.is_read_only


def test_plan_volumes_projected_merges_its_sources() -> None:
    cpu = {"containerName": "main", "resource": "requests.cpu"}
    items = [
        {"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}},
        {"path": "cpu", "resourceFieldRef": cpu},
    ]
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "conf", "items": [{"key": "a", "path": "ca.crt"}]}},
        {"configMap": {"name": "none", "optional": True}},
        {"secret": {"name": "key"}},
        {"downwardAPI": {"items": items}},
    ]
    files = read_files(plan({"projected": {"sources": sources}}))
    contents = {path: content for path, (content, _) in files.items()}
    assert contents == {"token": b"tok", "ca.crt": b"1", "k": b"pw", "ns": b"ns", "cpu": b"0"}


def build_item(key: str, path: str) -> Object:
    return {"configMap": {"name": "conf", "items": [{"key": key, "path": path}]}}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'volume "v" : configmap "none" not found'),
        (build_item("z", "z"), "references non-existent configMap key: z"),
        (build_item("a", "../z"), "must be relative"),
        ({"persistentVolumeClaim": {"claimName": "c"}}, "no volumes persistentVolumeClaim"),
    ],
)
def test_plan_volumes_that_cannot_be_made_raise(volume: Object, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        plan(volume)


def test_plan_volumes_service_account_is_added_unless_refused() -> None:
    wanted = plan_volumes(build_facts(), {}, ACCOUNT)
    refused = plan_volumes(build_facts(automountServiceAccountToken=False), {}, ACCOUNT)
    assert read_files(wanted[SERVICE_ACCOUNT_VOLUME])["token"][0] == b"tok"
    assert refused == {}


def test_list_volume_references_pod_names_every_object() -> None:
    projected = {"sources": [{"secret": {"name": "key"}}, {"configMap": {"name": "none"}}]}
    facts = build_facts(
        {"name": "a", "configMap": {"name": "conf"}},
        {"name": "b", "secret": {"secretName": "other"}},
        {"name": "c", "projected": projected},
    )
    assert list_volume_references(facts.pod) == {
        (CONFIGMAPS, "conf"),
        (SECRETS, "other"),
        (SECRETS, "key"),
        (CONFIGMAPS, "none"),
    }


def test_plan_mounts_sub_paths_are_expanded_and_read_only_is_inherited() -> None:
    volumes: dict[str, Volume] = {
        "v": DirectoryVolume(),
        "c": DirectoryVolume(is_read_only=True),
        SERVICE_ACCOUNT_VOLUME: DirectoryVolume(is_read_only=True),
    }
    container = {
        "name": "main",
        "volumeMounts": [
            {"name": "v", "mountPath": "/mnt/x/", "subPathExpr": "$(POD)/log"},
            {"name": "v", "mountPath": "/mnt/y", "readOnly": True},
            {"name": "c", "mountPath": "/etc/conf", "subPath": "a"},
        ],
    }

    assert plan_mounts(container, volumes, {"POD": "p"}) == [
        MountPlan("v", "p/log", "/mnt/x", read_only=False),
        MountPlan("v", "", "/mnt/y", read_only=True),
        MountPlan("c", "a", "/etc/conf", read_only=True),
        MountPlan(SERVICE_ACCOUNT_VOLUME, "", SERVICE_ACCOUNT_DIR, read_only=True),
    ]


def test_plan_mounts_users_service_account_volume_wins() -> None:
    volumes: dict[str, Volume] = {
        "mine": DirectoryVolume(),
        SERVICE_ACCOUNT_VOLUME: DirectoryVolume(),
    }
    mounts = [{"name": "mine", "mountPath": SERVICE_ACCOUNT_DIR}]
    plans = plan_mounts({"name": "main", "volumeMounts": mounts}, volumes, {})
    assert [plan.volume for plan in plans] == ["mine"]


def test_plan_mounts_unknown_volume_raises() -> None:
    mounts = [{"name": "no", "mountPath": "/x"}]
    with pytest.raises(FieldError, match='volume "no" of container main does not exist'):
        plan_mounts({"name": "main", "volumeMounts": mounts}, {}, {})


def test_pod_directory_volumes_are_written_with_their_modes(tmp_path: Path) -> None:
    directory = PodDirectory(tmp_path, "u")
    assert not directory.path.exists()
    directory.make({})
    volumes: dict[str, Volume] = {
        "v": DirectoryVolume(),
        "c": DirectoryVolume((VolumeFile("deep/run.sh", b"x", 0o755),)),
    }
    directory.write_volumes(volumes)
    directory.write_volumes(volumes)
    script = directory.locate_mount(MountPlan("c", "deep/run.sh", "/x", read_only=False), volumes)
    assert script.read_bytes() == b"x"
    assert script.stat().st_mode & 0o777 == 0o755
    assert (directory.volumes / "v").stat().st_mode & 0o777 == 0o777
    assert directory.path.stat().st_mode & 0o777 == 0o700
    directory.remove()
    assert not directory.path.exists()


@pytest.fixture
def directory(tmp_path: Path) -> PodDirectory:
    """A Pod's directory with an empty volume."""
    directory = PodDirectory(tmp_path, "u")
    directory.make({})
    directory.write_volumes({"v": DirectoryVolume()})
    return directory


def test_pod_directory_missing_sub_path_becomes_a_directory(directory: PodDirectory) -> None:
    plan = MountPlan("v", "a/b", "/x", read_only=False)
    assert directory.locate_mount(plan, {"v": DirectoryVolume()}).is_dir()


def test_pod_directory_sub_path_through_a_link_of_a_container_is_refused(
    tmp_path: Path, directory: PodDirectory
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (directory.volumes / "v" / "link").symlink_to(outside)
    plan = MountPlan("v", "link/new", "/x", read_only=False)
    with pytest.raises(FieldError, match="out of the volume"):
        directory.locate_mount(plan, {"v": DirectoryVolume()})
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate", "FileOrCreate"])
def test_pod_directory_missing_host_path_is_made_if_its_type_allows_it(
    kind: str, tmp_path: Path
) -> None:
    PodDirectory(tmp_path, "u").write_volumes({"h": HostVolume(str(tmp_path / "new"), kind)})
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["Directory", "File", "Socket"])
def test_pod_directory_host_path_of_another_type_raises(kind: str, tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=f"is not a {kind}"):
        PodDirectory(tmp_path, "u").write_volumes({"h": HostVolume(str(tmp_path / "no"), kind)})
