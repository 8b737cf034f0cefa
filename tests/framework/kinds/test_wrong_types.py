"""Jobs with values of wrong JSON types: a Framework or faults, never another exception."""

import copy
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framework.api.fielderrors import FieldErrors
from framework.kinds.catalog import find_compile
from framework.kinds.compiled import Compiled
from tests.framework.kinds.jobs import Wire, build_template, build_tfjob, build_trainingjob

Path = tuple[str | int, ...]
VALUES: tuple[Any, ...] = (None, True, 7, -1, 1.5, "", "x", "²", [], ["x"], [None], {}, {"x": []})
FULL = {
    "env": [{"name": "A", "value": "b"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "args": ["--fast"],
    "imagePullPolicy": "Always",
    "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": 1}},
}


def fill(name: str) -> Wire:
    """A template with all fields that the compile steps read."""
    template = build_template(name, **copy.deepcopy(FULL))
    template["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    template["spec"] |= {
        "serviceAccountName": "mine",
        "serviceAccount": "mine",
        "automountServiceAccountToken": True,
        "initContainers": [{"name": "first", "image": "init:1", "command": ["true"]}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    return template


def fill_tfjob() -> Wire:
    board = {
        "logDir": "/logs",
        "volumes": [{"name": "logs", "emptyDir": {}}],
        "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
        "serviceType": "ClusterIP",
    }
    job = build_tfjob(tensorboard=board, tfImage="tf:1")
    job["spec"]["replicaSpecs"][0]["template"] = fill("tensorflow")
    job["metadata"]["annotations"] = {"frameworkbarrier.io/json-logs": "true"}
    return job


def fill_trainingjob(mode: str) -> Wire:
    job = build_trainingjob(launcherAttachMode=mode, slotsPerWorker=1, backoffLimit=2)
    job["metadata"]["labels"] = {"a": "b"}
    for replica in job["spec"]["etReplicaSpecs"].values():
        replica["template"] = fill("train")
    del job["spec"]["slotsPerWorker"]
    return job


BUILDERS: dict[str, Callable[[], Wire]] = {
    "tfjob": fill_tfjob,
    "ssh": lambda: fill_trainingjob("ssh"),
    "kubexec": lambda: fill_trainingjob("kubexec"),
}


def list_paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """All places below a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in parts:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from list_paths(item, (*path, key))


def put(body: Wire, path: Path, value: Any) -> None:
    target: Any = body
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = copy.deepcopy(value)


def try_compile(body: Wire) -> Compiled | FieldErrors:
    compile_body = find_compile(body)
    assert compile_body is not None
    try:
        compiled = compile_body(body)
    except FieldErrors as e:
        return e
    assert compiled.supporting
    return compiled


@pytest.mark.parametrize("name", BUILDERS)
def test_any_type_in_any_place_gives_a_framework_or_faults(name: str) -> None:
    body = BUILDERS[name]()
    assert isinstance(try_compile(body), Compiled)
    places = [path for path in list_paths(body) if path[0] in {"metadata", "spec"}]
    assert len(places) > 60
    for path, value in itertools.product(places, VALUES):
        changed = copy.deepcopy(body)
        put(changed, path, value)
        try:
            try_compile(changed)
        except Exception as e:
            raise AssertionError(f"{path}: {value!r}") from e


@pytest.mark.parametrize("name", BUILDERS)
def test_several_wrong_types_give_a_framework_or_faults(name: str) -> None:
    rng = random.Random(13)
    body = BUILDERS[name]()
    for _ in range(300):
        changed = copy.deepcopy(body)
        for _ in range(3):
            places = [path for path in list_paths(changed) if path[0] in {"metadata", "spec"}]
            put(changed, rng.choice(places), rng.choice(VALUES))
        try_compile(changed)


WRONG = {
    "volumeMounts[0]": ({"volumeMounts": ["x"]}, "must be an object, not string"),
    "volumeMounts[1]": ({"volumeMounts": [{}, None]}, "must be an object, not null"),
    "env[0]": ({"env": ["A=b"]}, "must be an object, not string"),
    "env[0].name": ({"env": [{"name": ["A"]}]}, "must be a string, not array"),
    "resources": ({"resources": "2"}, "must be an object, not string"),
    "resources.limits": ({"resources": {"limits": ["x"]}}, "must be an object, not array"),
    "resources.limits[cpu]": (
        {"resources": {"limits": {"cpu": {}}}},
        "must be a number or a string, not object",
    ),
    "command[0]": ({"command": [1]}, "must be a string, not"),
    "image": ({"image": 7}, "must be a string, not"),
}


@pytest.mark.parametrize("field", WRONG)
@pytest.mark.parametrize("name", BUILDERS)
def test_wrong_type_is_named_with_field_reason_and_remedy(name: str, field: str) -> None:
    fields, reason = WRONG[field]
    body = BUILDERS[name]()
    spec = body["spec"]
    owner = spec["replicaSpecs"][0] if name == "tfjob" else spec["etReplicaSpecs"]["worker"]
    owner["template"]["spec"]["containers"][0].update(fields)
    root = "spec.replicaSpecs[0]" if name == "tfjob" else "spec.etReplicaSpecs.worker"
    found = try_compile(body)
    assert isinstance(found, FieldErrors)
    (error,) = found.errors
    assert error.path == f"{root}.template.spec.containers[0].{field}"
    assert reason in error.message
    assert "correct it" in error.message


def test_many_wrong_types_are_reported_in_a_few_lines() -> None:
    body = fill_tfjob()
    container = body["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["env"] = ["A=b"] * 10_000
    found = try_compile(body)
    assert isinstance(found, FieldErrors)
    assert 1 < len(found.errors) < 50
