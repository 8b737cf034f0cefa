"""Any template a user may write is kept: by the CRD's schema, by the codec, in the Pod."""

import copy
import itertools
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.core.objects.object_templates import build_pod
from framework.api import codec, constants
from framework.api.naming import TaskKey
from framework.api.types import Framework
from framework.clock import ManualClock
from framework.kube.resources import FRAMEWORKS
from tests.support.builders import (
    AT,
    CONFIGMAP_UID,
    build_framework,
    build_framework_wire,
    build_role,
    build_role_status,
    build_role_wire,
    build_spec,
    build_status,
)
from tests.support.fakes.storageclient import find_type, open_storage

KEY = TaskKey("worker", 1)

# No double brace, which might be a placeholder; no key of ours.
_texts = st.text(st.characters(codec="utf-8", exclude_characters="{\x00"), max_size=6)
_keys = _texts.filter(lambda key: not key.startswith("FC_"))
_numbers = st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6).filter(lambda x: x != int(x))
_values: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=10,
)
_unknown = st.dictionaries(_keys, _values, max_size=3)


def with_unknown(fields: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some known fields, and some unknown ones."""
    return st.builds(lambda unknown, known: {**unknown, **known}, _unknown, fields)


_containers = st.lists(
    with_unknown(
        st.fixed_dictionaries(
            {"name": _texts},
            optional={
                "image": _texts,
                "env": st.lists(
                    with_unknown(st.fixed_dictionaries({"name": _texts})), min_size=1, max_size=2
                ),
                "restartPolicy": st.just("Always"),
                "terminationMessagePolicy": st.sampled_from(["File", "FallbackToLogsOnError"]),
                "securityContext": _unknown,
            },
        )
    ),
    max_size=3,
)
_specs = with_unknown(
    st.fixed_dictionaries(
        {"containers": _containers},
        optional={
            "initContainers": _containers,
            "schedulingGates": st.lists(_unknown, max_size=2),
            "resourceClaims": st.lists(_unknown, max_size=2),
            "volumes": _values,
        },
    )
)
_metadata = with_unknown(
    st.fixed_dictionaries(
        {},
        optional={
            "labels": st.dictionaries(_keys, _texts, max_size=2),
            "annotations": st.dictionaries(_keys, _texts, max_size=2),
            "ownerReferences": st.lists(_unknown, max_size=2),
            "finalizers": st.lists(_texts, max_size=2),
        },
    )
)
_templates = st.fixed_dictionaries({"spec": _specs}, optional={"metadata": _metadata})
_storage = open_storage(ManualClock(AT))
_names = (f"gang-{number}" for number in itertools.count())


def store(template: Any) -> Any:
    """Send a Framework with this template through the API server; give what is stored."""
    role = build_role_wire(number=2, task={"pod": copy.deepcopy(template)})
    wire = build_framework_wire(role) | {"metadata": {"name": next(_names)}}
    return _storage.create(find_type(_storage, FRAMEWORKS), "default", wire)


def list_env(framework: Framework) -> list[dict[str, Any]]:
    """Build the first variables of every container, from a template without any."""
    plain = replace(framework, spec=build_spec(build_role(number=2)))
    env: list[dict[str, Any]] = build_pod(plain, KEY)["spec"]["containers"][0]["env"]
    return env


def build_expected(template: Any, framework: Framework) -> Any:
    """Add to a template what docs/api.md says, and nothing else."""
    env = list_env(framework)
    values = {variable["name"]: variable["value"] for variable in env if "value" in variable}
    del values[constants.TASK_ATTEMPT_INSTANCE_UID]
    labels = (constants.FRAMEWORK_NAME, constants.TASKROLE_NAME, constants.TASK_INDEX)
    pod = copy.deepcopy(template)
    metadata = pod.setdefault("metadata", {})
    metadata["name"] = values[constants.POD_NAME]
    metadata["namespace"] = "default"
    metadata["annotations"] = metadata.get("annotations", {}) | values
    metadata["labels"] = metadata.get("labels", {}) | {name: values[name] for name in labels}
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": values[constants.CONFIGMAP_NAME],
        "uid": CONFIGMAP_UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata["ownerReferences"] = [*metadata.get("ownerReferences", ()), owner]
    for kind in ("containers", "initContainers"):
        for container in pod["spec"].get(kind, ()):
            container["env"] = [*env, *container.get("env", ())]
            container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return {"apiVersion": "v1", "kind": "Pod", **pod}


@given(_templates)
def test_template_is_stored_and_read_as_it_was_written(template: Any) -> None:
    stored = store(template)
    assert stored["spec"]["taskRoles"][0]["task"]["pod"] == template
    framework = codec.decode_framework(stored)
    assert framework.spec.task_roles[0].task.pod == template
    written = codec.encode_framework(framework)
    assert written["spec"]["taskRoles"][0]["task"]["pod"] == template


@given(_templates)
def test_pod_is_its_template_and_the_documented_additions(template: Any) -> None:
    stored = codec.decode_framework(store(template))
    framework = build_framework(stored.spec, build_status(build_role_status(number=2)))
    before = copy.deepcopy(framework.spec)
    assert build_pod(framework, KEY) == build_expected(template, framework)
    assert framework.spec == before
