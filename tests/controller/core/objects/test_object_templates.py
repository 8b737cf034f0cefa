"""A created object is its template plus what docs/api.md, "Objects of an attempt", says."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.objects.object_templates import PodTooLargeError, build_configmap, build_pod
from framework.api import constants
from framework.api.naming import TaskKey
from framework.api.types import Framework, TaskSpec
from tests.support.builders import (
    CONFIGMAP_UID,
    FRAMEWORK_UID,
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_template_wire,
)
from tests.support.builders.cases import cases
from tests.support.measuring.cost import assert_grows_at_most

KEY = TaskKey("worker", 1)
NAMES = {
    "FC_FRAMEWORK_NAMESPACE": "default",
    "FC_FRAMEWORK_NAME": "gang",
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "1",
    "FC_CONFIGMAP_NAME": "gang-attempt",
    "FC_POD_NAME": "gang-worker-1",
    "FC_FRAMEWORK_UID": FRAMEWORK_UID,
    "FC_FRAMEWORK_ATTEMPT_ID": "0",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{CONFIGMAP_UID}",
    "FC_CONFIGMAP_UID": CONFIGMAP_UID,
    "FC_TASKROLE_UID": "role-worker",
    "FC_TASK_UID": "task-worker-1",
    "FC_TASK_ATTEMPT_ID": "0",
}


def framework_of(template: Any) -> Framework:
    role = build_role(number=2, task=TaskSpec(pod=template))
    return build_framework(build_spec(role), build_status(build_role_status(number=2)))


def render(template: Any) -> Any:
    return build_pod(framework_of(template), KEY)


def test_pod_has_its_identity_in_its_metadata() -> None:
    meta = render(build_template_wire())["metadata"]
    assert (meta["name"], meta["namespace"]) == ("gang-worker-1", "default")
    assert meta["annotations"] == NAMES
    labels = ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX")
    assert meta["labels"] == {name: NAMES[name] for name in labels}
    (owner,) = meta["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == (
        "v1",
        "ConfigMap",
        "gang-attempt",
    )
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        CONFIGMAP_UID,
        True,
        True,
    )


def test_every_container_has_its_identity_before_the_variables_of_the_user() -> None:
    mine = {"name": "FC_TASK_INDEX", "value": "mine"}
    containers = [{"name": "main", "env": [mine]}, {"name": "side"}]
    spec = render(build_template_wire(containers=containers, initContainers=[{"name": "init"}]))[
        "spec"
    ]
    expected: list[Any] = [{"name": name, "value": value} for name, value in NAMES.items()]
    pod_uid = {"fieldRef": {"fieldPath": "metadata.uid"}}
    expected += [
        {"name": "FC_POD_UID", "valueFrom": pod_uid},
        {"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": "0_$(FC_POD_UID)"},
    ]
    envs = [container["env"] for container in (*spec["containers"], *spec["initContainers"])]
    assert envs == [[*expected, mine], expected, expected]


@pytest.mark.parametrize(
    ("given_policy", "expected"),
    [(None, "FallbackToLogsOnError"), ("", "FallbackToLogsOnError"), ("File", "File")],
)
def test_termination_message_falls_back_to_logs_unless_the_user_chose(
    given_policy: str | None, expected: str
) -> None:
    container: dict[str, Any] = {"name": "main"}
    if given_policy is not None:
        container["terminationMessagePolicy"] = given_policy
    pod = render(build_template_wire(containers=[container]))
    assert pod["spec"]["containers"][0]["terminationMessagePolicy"] == expected


def test_metadata_of_the_template_is_kept_but_its_name_and_namespace() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    template = build_template_wire() | {
        "metadata": {
            "name": "mine",
            "namespace": "elsewhere",
            "labels": {"a": "b", "FC_TASK_INDEX": "mine"},
            "annotations": {"hivedscheduler": "x: 1", "FC_TASK_UID": "mine"},
            "ownerReferences": [owner],
        }
    }
    meta = render(template)["metadata"]
    assert (meta["name"], meta["namespace"]) == ("gang-worker-1", "default")
    assert meta["labels"]["a"] == "b"
    assert meta["labels"]["FC_TASK_INDEX"] == "1"
    assert meta["annotations"]["hivedscheduler"] == "x: 1"
    assert meta["annotations"]["FC_TASK_UID"] == "task-worker-1"
    assert meta["ownerReferences"][0] == owner
    assert len(meta["ownerReferences"]) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{FC_POD_NAME}}", "gang-worker-1"),
        ("a{{FC_TASKROLE_NAME}}-{{FC_TASK_INDEX}}b", "aworker-1b"),
        ("{{FC_FRAMEWORK_NAMESPACE}}/{{FC_FRAMEWORK_NAME}}", "default/gang"),
        ("{{FC_CONFIGMAP_NAME}}", "gang-attempt"),
        ("{{FC_UNKNOWN}} {{FC_TASK_UID}}", "{{FC_UNKNOWN}} {{FC_TASK_UID}}"),
        ("{{{FC_TASK_INDEX}}}", "{1}"),
        ("{{{{FC_TASK_INDEX}}}}", "{{1}}"),
        ("{{FC_TASK_INDEX", "{{FC_TASK_INDEX"),
        ("$(FC_TASK_INDEX) {FC_TASK_INDEX}", "$(FC_TASK_INDEX) {FC_TASK_INDEX}"),
    ],
)
def test_placeholders_are_replaced_in_any_string(text: str, expected: str) -> None:
    container = {"name": "main", "command": [text], "futureField": {text: [text]}}
    pod = render(build_template_wire(containers=[container]))
    rendered = pod["spec"]["containers"][0]
    assert rendered["command"] == [expected]
    assert rendered["futureField"] == {expected: [expected]}


_pieces = st.sampled_from(["{{FC_TASK_INDEX}}", "{", "}", "{{FC_NO}}", "x"])


@given(st.lists(_pieces, max_size=12).map("".join))
def test_placeholders_are_replaced_as_one_scan_would(text: str) -> None:
    pod = render(build_template_wire(containers=[{"name": text}]))
    assert pod["spec"]["containers"][0]["name"] == text.replace("{{FC_TASK_INDEX}}", "1")


@pytest.mark.parametrize("piece", ["{", "{{ ", "{{FC_", "{{FC_TASK_INDEX}", "{{FC_TASK_INDEX}}"])
def test_placeholders_of_a_long_text_are_found_in_linear_time(piece: str) -> None:
    short, long = (
        partial(render, build_template_wire(containers=[{"name": piece * (chars // len(piece))}]))
        for chars in (100_000, 1_200_000)
    )
    assert_grows_at_most(40, short, long)


@cases(
    "containers cause",
    some_placeholders=([{"name": "{{FC_FRAMEWORK_NAME}}" * 20_000}], ""),
    placeholders=([{"name": "{{FC_POD_NAME}}" * 80_000}], "placeholders"),
    containers=([{}] * 500, ""),
    many_containers=([{}] * 400_000, "containers"),
)
def test_pod_far_longer_than_its_template_is_not_built(containers: Any, cause: str) -> None:
    framework = framework_of(build_template_wire(containers=containers))
    meta = framework.metadata
    long = replace(framework, metadata=replace(meta, name="a" * 63))
    if not cause:
        build_pod(long, KEY)
        return
    with pytest.raises(PodTooLargeError, match=f"role worker .*: use fewer {cause}"):
        build_pod(long, KEY)


def test_placeholder_in_a_value_is_not_replaced_again() -> None:
    framework = framework_of(build_template_wire(containers=[{"name": "{{FC_FRAMEWORK_NAME}}"}]))
    name = "{{FC_TASK_INDEX}}"
    pod = build_pod(replace(framework, metadata=replace(framework.metadata, name=name)), KEY)
    assert pod["spec"]["containers"][0]["name"] == name


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"spec": None, "metadata": None},
        {"spec": {"containers": None, "initContainers": "x"}},
        {"spec": {"containers": ["x", None, {"env": "y"}]}, "metadata": {"labels": 5}},
        {"spec": [], "metadata": {"ownerReferences": {}, "annotations": []}},
    ],
)
def test_malformed_template_is_left_to_the_server_to_refuse(template: Any) -> None:
    pod = render(template)
    assert pod["metadata"]["annotations"] == NAMES
    json.dumps(pod)


@pytest.mark.parametrize("env", [{"A": "b"}, "A=b", 1])
def test_env_of_another_form_is_left_to_the_server_to_refuse(env: Any) -> None:
    """Not dropped: the Pod would run without the user's variables."""
    container = {"name": "main", "image": "x", "env": env}
    pod = render({"spec": {"containers": [container]}})
    assert pod["spec"]["containers"][0]["env"] == env


def test_tuples_of_a_template_become_lists() -> None:
    pod = render({"spec": {"containers": ({"name": "main", "args": ("a",)},)}})
    assert pod["spec"]["containers"][0]["args"] == ["a"]


@cases("key", no_such_role=TaskKey("other", 0), no_such_index=TaskKey("worker", 2))
def test_pod_of_an_unknown_task_is_refused(key: TaskKey) -> None:
    with pytest.raises(LookupError):
        build_pod(framework_of(build_template_wire()), key)


def test_pod_of_a_role_gone_from_the_spec_is_refused() -> None:
    framework = build_framework(build_spec(build_role("other")), build_status())
    with pytest.raises(LookupError, match="not in the spec"):
        build_pod(framework, TaskKey("worker", 0))


def test_objects_of_a_framework_without_a_status_are_refused() -> None:
    with pytest.raises(LookupError, match="no status"):
        build_configmap(build_framework())


def test_configmap_has_its_identity_and_is_deleted_in_the_foreground() -> None:
    configmap = build_configmap(framework_of(build_template_wire()))
    meta = configmap["metadata"]
    assert (meta["name"], meta["namespace"]) == ("gang-attempt", "default")
    assert meta["finalizers"] == ["foregroundDeletion"]
    assert meta["labels"] == {"FC_FRAMEWORK_NAME": "gang"}
    assert meta["annotations"] == {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": "gang",
        "FC_CONFIGMAP_NAME": "gang-attempt",
        "FC_FRAMEWORK_UID": FRAMEWORK_UID,
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
        constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION,
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Framework", FRAMEWORK_UID)
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
