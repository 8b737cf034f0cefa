from typing import Any

import pytest

from localcluster.kubelet.container.security import (
    CAPABILITIES,
    DEFAULT_USER,
    UNCHANGED,
    Host,
    Privileges,
    get_volume_group,
    list_ignored,
    plan_privileges,
)
from localcluster.kubelet.fields import FieldError

ROOT = Host(uid=0, has_private_root=True, has_user_namespace=False, can_write_protect=True)
ROOT_WITHOUT_MOUNTS = Host(
    uid=0, has_private_root=False, has_user_namespace=False, can_write_protect=True
)
ORDINARY = Host(uid=1000, has_private_root=True, has_user_namespace=True, can_write_protect=True)
NONE = Privileges()


def build_pod(context: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    container = {"name": "main", "securityContext": own}
    return {"spec": {"securityContext": context or {}, "containers": [container]}}


def plan(host: Host, context: dict[str, Any] | None = None, **own: Any) -> Privileges:
    pod = build_pod(context, **own)
    return plan_privileges(pod, pod["spec"]["containers"][0], host)


@pytest.mark.parametrize(
    ("context", "own", "expected"),
    [
        ({}, {}, (UNCHANGED, UNCHANGED, None)),
        ({"runAsUser": 7}, {}, (7, 7, ())),
        ({"runAsUser": 7}, {"runAsUser": 8, "runAsGroup": 9}, (8, 9, ())),
        ({"runAsUser": 7, "runAsGroup": 0}, {}, (7, 0, ())),
        ({"runAsUser": 7, "fsGroup": 5, "supplementalGroups": [3, 5]}, {}, (7, 7, (3, 5))),
        ({"runAsNonRoot": True}, {}, (DEFAULT_USER, DEFAULT_USER, ())),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, (UNCHANGED, UNCHANGED, None)),
        ({}, {"runAsUser": 0}, (UNCHANGED, UNCHANGED, None)),
        ({}, {"runAsGroup": 9}, (UNCHANGED, 9, ())),
        ({"runAsGroup": 0}, {}, (UNCHANGED, 0, ())),
        ({"supplementalGroups": [3], "fsGroup": 5}, {}, (UNCHANGED, UNCHANGED, (3, 5))),
        ({"fsGroup": 5}, {"runAsUser": 0, "runAsGroup": 9}, (UNCHANGED, 9, (5,))),
    ],
)
def test_user_of_a_container_where_the_kubelet_is_root(
    context: dict[str, Any], own: dict[str, Any], expected: tuple[int, int, tuple[int, ...] | None]
) -> None:
    found = plan(ROOT, context, **own)
    assert (found.user, found.group, found.groups) == expected
    assert plan(ORDINARY, context, **own) == NONE


def test_groups_that_cannot_be_given_are_listed() -> None:
    context = {"runAsGroup": 9, "supplementalGroups": [3], "fsGroup": 5}
    assert plan(ROOT_WITHOUT_MOUNTS, context) == NONE
    found = list_ignored(build_pod(context), ROOT_WITHOUT_MOUNTS)
    assert [line.partition(":")[0] for line in found] == [
        f"spec.securityContext.{field}" for field in context
    ]


@pytest.mark.parametrize("host", [ROOT, ORDINARY])
def test_user_root_that_must_not_be_root_is_refused(host: Host) -> None:
    with pytest.raises(FieldError, match=r"breaks non-root policy: .*set runAsUser to another"):
        plan(host, {"runAsNonRoot": True}, runAsUser=0)


@pytest.mark.parametrize("user", [None, 1000])
def test_container_that_must_not_be_root_and_would_be_is_refused(user: int | None) -> None:
    with pytest.raises(FieldError, match="has runAsNonRoot and image will run as root"):
        plan(ROOT_WITHOUT_MOUNTS, {"runAsNonRoot": True, "runAsUser": user})


def test_container_of_an_ordinary_user_that_must_not_be_root_runs() -> None:
    assert plan(ORDINARY, {"runAsNonRoot": True}) == NONE


@pytest.mark.parametrize(
    ("capabilities", "dropped"),
    [
        ({"drop": ["ALL"]}, set(CAPABILITIES)),
        ({"drop": ["ALL"], "add": ["CHOWN"]}, set(CAPABILITIES) - {"CHOWN"}),
        ({"drop": ["NET_RAW", "CAP_MKNOD"]}, {"NET_RAW", "MKNOD"}),
        ({"add": ["NET_ADMIN"]}, set()),
    ],
)
def test_capabilities_that_are_dropped(capabilities: dict[str, Any], dropped: set[str]) -> None:
    found = plan(ROOT, capabilities=capabilities)
    assert {CAPABILITIES[number] for number in found.dropped_capabilities} == dropped
    assert plan(ORDINARY, capabilities=capabilities) == NONE
    assert plan(ROOT, capabilities=capabilities, privileged=True) == NONE


def test_read_only_root_and_no_new_privileges_are_planned() -> None:
    found = plan(ROOT, readOnlyRootFilesystem=True, allowPrivilegeEscalation=False)
    assert found == Privileges(no_new_privileges=True, read_only_root=True)
    assert not plan(ROOT_WITHOUT_MOUNTS, readOnlyRootFilesystem=True).read_only_root


def test_fields_that_root_honours_are_not_listed() -> None:
    context = {"runAsUser": 7, "runAsGroup": 7, "fsGroup": 7, "runAsNonRoot": True}
    own = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "Unconfined"},
    }
    assert list_ignored(build_pod(context, **own), ROOT) == []


def test_fields_that_are_not_honoured_are_listed_with_a_reason() -> None:
    pod = build_pod(
        {"runAsUser": 7, "seccompProfile": {"type": "RuntimeDefault"}}, readOnlyRootFilesystem=True
    )
    user, seccomp = list_ignored(pod, ORDINARY)
    assert user == (
        "spec.securityContext.runAsUser: only root can change users, so containers run as user 1000"
    )
    assert seccomp.startswith("spec.securityContext.seccompProfile: the local cluster has no")
    ignored = "\n".join(list_ignored(pod, ROOT_WITHOUT_MOUNTS))
    assert "runAsUser: this host gives containers no private root, so they run as root" in ignored
    assert "spec.containers{main}.securityContext.readOnlyRootFilesystem: this host" in ignored


def test_user_that_is_chosen_for_a_container_is_listed() -> None:
    (ignored,) = list_ignored(build_pod(runAsNonRoot=True), ROOT)
    assert f"runs as user {DEFAULT_USER}; set runAsUser" in ignored
    assert list_ignored(build_pod(runAsNonRoot=True), ORDINARY) == []


def test_group_of_volumes_where_it_can_be_given() -> None:
    assert get_volume_group(build_pod({"fsGroup": 5}), ROOT) == 5
    assert get_volume_group(build_pod({"fsGroup": 5}), ORDINARY) is None
    assert get_volume_group(build_pod(), ROOT) is None
