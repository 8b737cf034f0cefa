"""Large Pod templates are kept as JSON: nothing of them is lost, and they take no more memory."""

import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.actions import ObjectKind
from controller.core.decide import decide
from controller.core.objects.object_templates import build_pod
from controller.core.settings import Settings
from controller.store.frameworks import decode_framework
from controller.store.packed_templates import PackedTemplate, pack_templates
from controller.store.store import Store
from framework.api.naming import TaskKey
from framework.api.types import TaskSpec
from framework.kube.deferred import defer_object
from tests.support.builders import (
    build_framework,
    build_framework_wire,
    build_role,
    build_role_wire,
    build_spec,
    build_status,
    build_template_wire,
)
from tests.support.builders.strategies import json_values
from tests.support.builders.worlds import build_snapshot


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_packed_template_equals_the_template(template: dict[str, Any]) -> None:
    packed = PackedTemplate.pack(template)
    assert dict(packed) == template
    assert dict(packed.items()) == template
    assert list(packed.values()) == list(template.values())
    assert len(packed) == len(template)
    assert all(packed[key] == template[key] for key in template)


@pytest.mark.parametrize("size", [10, 10_000])
def test_pod_of_a_packed_template_is_the_pod_of_the_template(size: int) -> None:
    pod = build_template_wire(volumes=[{"name": "{{FC_TASK_INDEX}}", "emptyDir": {}}])
    pod["metadata"] = {"labels": {"a": "b"}, "annotations": {"text": "x" * size}}
    spec = build_spec(build_role(task=TaskSpec(pod=pod)))
    packed = pack_templates(spec)
    assert isinstance(packed.task_roles[0].task.pod, PackedTemplate)
    key = TaskKey("worker", 0)
    pods = [build_pod(build_framework(s, build_status()), key) for s in (spec, packed)]
    assert msgspec.json.decode(msgspec.json.encode(pods[1])) == pods[0]


def test_packed_templates_are_not_packed_again() -> None:
    packed = pack_templates(build_spec(build_role(), build_role("server")))
    again = pack_templates(packed)
    assert [id(role.task.pod) for role in again.task_roles] == [
        id(role.task.pod) for role in packed.task_roles
    ]


@pytest.mark.parametrize("is_list", [False, True])
def test_store_holds_a_large_template_in_few_bytes(*, is_list: bool) -> None:
    role = build_role_wire()
    role["task"]["pod"]["spec"]["future"] = [{} for _ in range(100_000)]
    wire = build_framework_wire(role)
    wire["metadata"]["managedFields"] = [{"fieldsV1": {f"f:{n}": {} for n in range(1000)}}]
    text = msgspec.json.encode(wire)
    del wire, role
    store = Store(lambda _: None)
    tracemalloc.start()
    if is_list:
        store.replace(ObjectKind.FRAMEWORK, [defer_object(msgspec.json.decode(text))], "5")
    else:
        store.apply(ObjectKind.FRAMEWORK, msgspec.json.decode(text))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * len(text)
    entry = store.find("default/gang")
    assert entry is not None
    decode_framework(entry)
    assert entry.observed.framework is not None
    assert len(entry.observed.framework.spec.task_roles[0].task.pod["spec"]["future"]) == 100_000
    assert "managedFields" not in entry.observed.framework.metadata.extra


def test_decision_on_packed_templates_is_the_same() -> None:
    pod = build_template_wire(initContainers=[{"name": "barrier", "image": "x" * 9000}])
    spec = build_spec(build_role(task=TaskSpec(pod=pod)))
    decisions = [
        decide(build_snapshot(s, build_status()), Settings()) for s in (spec, pack_templates(spec))
    ]
    assert decisions[0].status == decisions[1].status
    assert decisions[0].publication == decisions[1].publication
