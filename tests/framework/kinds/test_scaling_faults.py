"""Faults of ScaleIn and ScaleOut: each is named by field, with its reason and its remedy."""

from typing import Any

import pytest

from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.scalerequest import (
    MAX_SCRIPT_CHARS,
    MAX_VARIABLES,
    MAX_WORKERS,
    ScaleRequest,
    decode_request,
    encode_request,
)
from framework.kinds.scaling.decode import decode_scaler_spec, find_scaler_kind
from framework.kinds.scaling.types import Scaler, ScalerKind, ScalerSpec
from tests.framework.kinds.jobs import DROPPED, Change, Wire, edit
from tests.framework.kinds.scalers import Simulation
from tests.support.builders import at

IN, OUT = ScalerKind.SCALE_IN, ScalerKind.SCALE_OUT
LIST = "toDelete"


def build_scaler(kind: ScalerKind) -> Wire:
    field = LIST if kind is IN else "toAdd"
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": str(kind),
        "metadata": {"generateName": "scale-", "namespace": "team"},
        "spec": {
            "selector": {"name": "elastic"},
            "script": "/app/scale.sh",
            "timeout": 90,
            "env": [{"name": "A", "value": "x"}],
            field: {"count": 1},
        },
    }


def env(**variable: Any) -> Change:
    return edit("spec", env=[variable])


BOTH: dict[str, tuple[Change, str, str]] = {
    "no-metadata": (edit(metadata=DROPPED), "metadata", "a name or a generateName"),
    "no-name": (edit("metadata", generateName=DROPPED), "metadata.name", "is required"),
    "name": (edit("metadata", name="My_Scaler"), "metadata.name", "use a-z, 0-9, '-' and '.'"),
    "prefix": (edit("metadata", generateName="A-"), "metadata.generateName", "beginning with"),
    "namespace": (edit("metadata", namespace="A"), "metadata.namespace", "correct it"),
    "no-spec": (edit(spec=DROPPED), "spec", "is required"),
    "spec-text": (edit(spec="x"), "spec", "must be an object, not string"),
    "no-selector": (edit("spec", selector=DROPPED), "spec.selector", "the name of a job"),
    "selector-text": (edit("spec", selector="elastic"), "spec.selector", "must be an object"),
    "no-job": (edit("spec", selector={}), "spec.selector.name", "the name of a TrainingJob"),
    "job": (edit("spec", selector={"name": "a/b"}), "spec.selector.name", "'a/b' is not the name"),
    "timeout": (edit("spec", timeout=0), "spec.timeout", "must be from 1 to 86400, not 0"),
    "timeout-text": (edit("spec", timeout="1m"), "spec.timeout", "must be an integer"),
    "script-list": (edit("spec", script=["a"]), "spec.script", "must be a string, not array"),
    "script-lines": (edit("spec", script="a\nb"), "spec.script", "the path of a file"),
    "script-dash": (edit("spec", script="-c"), "spec.script", "as ./NAME"),
    "script-quoted-dash": (edit("spec", script="'-c' x"), "spec.script", "as ./NAME"),
    "script-quote": (edit("spec", script="/a.sh 'x"), "spec.script", "close it"),
    "script-blank": (edit("spec", script=" "), "spec.script", "write one, or leave it out"),
    "script-shell": (
        edit("spec", script="cd /a; sh b.sh >$LOG"),
        "spec.script",
        "has $ ; >, and no shell evaluates it",
    ),
    "script-long": (edit("spec", script="x" * 1025), "spec.script", "at most 1024 characters"),
    "env-map": (edit("spec", env={"A": "x"}), "spec.env", "must be an array, not object"),
    "env-many": (edit("spec", env=[{"name": "A"}] * 65), "spec.env", "use at most 64"),
    "env-large": (
        edit("spec", env=[{"name": f"A{i}", "value": "\x01" * 4096} for i in range(6)]),
        "spec.env",
        "bytes as JSON: use at most 131072",
    ),
    "env-no-name": (env(value="x"), "spec.env[0].name", "is required"),
    "env-name": (env(name="A-B", value="x"), "spec.env[0].name", "use letters, digits and '_'"),
    "env-number": (env(name="A", value=1), "spec.env[0].value", "must be a string, not number"),
    "env-long": (env(name="A", value="x" * 5000), "spec.env[0].value", "use at most 4096"),
    "env-zero": (env(name="A", value="\0"), "spec.env[0].value", "remove it"),
    "env-from": (env(name="A", valueFrom={}), "spec.env[0].valueFrom", "write the text as value"),
    "env-twice": (
        edit("spec", env=[{"name": "A"}, {"name": "A"}]),
        "spec.env[1].name",
        "A is given twice: remove one of them",
    ),
    "backoff": (edit("spec", backoffLimit="3"), "spec.backoffLimit", "must be an integer"),
}
WORKERS: dict[str, tuple[ScalerKind, Change, str, str]] = {
    "in-nothing": (IN, edit("spec", toDelete=DROPPED), "spec.toDelete", "count or podNames"),
    "in-empty": (IN, edit("spec", toDelete={}), "spec.toDelete.count", "write count or podNames"),
    "in-zero": (IN, edit("spec", toDelete={"count": 0}), "spec.toDelete.count", "from 1 to 1000"),
    "in-text": (IN, edit("spec", toDelete={"count": "1"}), "spec.toDelete.count", "an integer"),
    "in-no-names": (
        IN,
        edit("spec", toDelete={"podNames": []}),
        "spec.toDelete.podNames",
        "list the Pods of workers, or write count instead",
    ),
    "in-name": (
        IN,
        edit("spec", toDelete={"podNames": ["elastic-worker-0", "b_1"]}),
        "spec.toDelete.podNames[1]",
        "write JOB-worker-INDEX",
    ),
    "in-other-job": (
        IN,
        edit("spec", toDelete={"podNames": ["elastic-worker-0", "other-worker-0"]}),
        "spec.toDelete.podNames[1]",
        "'other-worker-0' is not the name of a worker of elastic, which spec.selector names",
    ),
    "in-launcher": (
        IN,
        edit("spec", toDelete={"podNames": ["elastic-launcher-0"]}),
        "spec.toDelete.podNames[0]",
        "write elastic-worker-INDEX",
    ),
    "in-name-text": (
        IN,
        edit("spec", toDelete={"podNames": "a"}),
        "spec.toDelete.podNames",
        "must be an array, not string",
    ),
    "in-many": (
        IN,
        edit("spec", toDelete={"podNames": [f"a-{i}" for i in range(1001)]}),
        "spec.toDelete.podNames",
        "use at most 1000",
    ),
    "out-nothing": (OUT, edit("spec", toAdd=DROPPED), "spec.toAdd", "an object with count"),
    "out-empty": (OUT, edit("spec", toAdd={}), "spec.toAdd.count", "is required: write count"),
    "out-number": (OUT, edit("spec", toAdd=2), "spec.toAdd", "must be an object, not number"),
    "out-negative": (OUT, edit("spec", toAdd={"count": -1}), "spec.toAdd.count", "to add"),
    "out-many": (OUT, edit("spec", toAdd={"count": 1001}), "spec.toAdd.count", "not 1001"),
    "out-half": (OUT, edit("spec", toAdd={"count": 1.5}), "spec.toAdd.count", "an integer"),
}
MISTAKES = [
    *((kind, *each, f"{kind}-{name}") for name, each in BOTH.items() for kind in (IN, OUT)),
    *((*each, name) for name, each in WORKERS.items()),
]


EACH_MISTAKE = pytest.mark.parametrize(
    ("kind", "change", "path", "message"),
    [each[:4] for each in MISTAKES],
    ids=[each[4] for each in MISTAKES],
)


def find_errors(kind: ScalerKind, change: Change) -> tuple[FieldError, ...]:
    body = build_scaler(kind)
    change(body)
    with pytest.raises(FieldErrors) as raised:
        decode_scaler_spec(kind, body)
    return raised.value.errors


@EACH_MISTAKE
def test_mistake_is_named_by_field_with_a_remedy(
    kind: ScalerKind, change: Change, path: str, message: str
) -> None:
    (error,) = find_errors(kind, change)
    assert error.path == path
    assert message in error.message


@EACH_MISTAKE
def test_mistake_is_in_the_condition_of_the_scaler(
    kind: ScalerKind, change: Change, path: str, message: str
) -> None:
    simulation = Simulation()
    faults = find_errors(kind, change)
    simulation.add(Scaler(kind, "team", "s", "uid", at(0), faults=faults))
    simulation.run()
    type_, reason, text = simulation.get_last()
    assert (type_, reason) == ("ScaleFailed", "InvalidSpec")
    assert text.startswith(f"{path}: ")
    assert message in text


def test_all_faults_are_named_together() -> None:
    body = build_scaler(IN)
    body["metadata"] = {}
    body["spec"] |= {"timeout": -1, "selector": {}, LIST: {}}
    with pytest.raises(FieldErrors) as raised:
        decode_scaler_spec(IN, body)
    paths = [error.path for error in raised.value.errors]
    assert paths == ["metadata.name", "spec.selector.name", "spec.toDelete.count", "spec.timeout"]


def test_scale_in_with_defaults() -> None:
    spec, notes = decode_scaler_spec(
        IN,
        {"metadata": {"name": "s"}, "spec": {"selector": {"name": "j"}, LIST: {"count": 2}}},
    )
    assert spec == ScalerSpec(job="j", count=2, timeout_seconds=60)
    assert notes == []


def test_scale_out_with_all_fields() -> None:
    spec, notes = decode_scaler_spec(OUT, build_scaler(OUT))
    assert spec == ScalerSpec(
        job="elastic",
        count=1,
        script="/app/scale.sh",
        timeout_seconds=90,
        env=(("A", "x"),),
    )
    assert notes == []


def test_names_win_over_a_count_and_are_listed_once() -> None:
    body = build_scaler(IN)
    body["spec"][LIST] = {"count": 3, "podNames": ["elastic-worker-1", "elastic-worker-1"]}
    spec, notes = decode_scaler_spec(IN, body)
    assert (spec.count, spec.pod_names) == (0, ("elastic-worker-1",))
    assert list(map(str, notes)) == [
        "spec.toDelete.count: has no effect beside podNames: remove it"
    ]


def test_what_has_no_effect_is_noted() -> None:
    body = build_scaler(OUT)
    body["spec"] |= {"script": "", "backoffLimit": 3, "replicas": 1}
    body["spec"]["toAdd"]["podNames"] = ["a"]
    body["spec"]["selector"]["labels"] = {}
    _, notes = decode_scaler_spec(OUT, body)
    assert [note.path for note in notes] == [
        "spec.replicas",
        "spec.selector.labels",
        "spec.toAdd.podNames",
        "spec.backoffLimit",
        "spec.env",
    ]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "ScaleIn"}, IN),
        ({"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "ScaleOut"}, OUT),
        ({"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingJob"}, None),
        ({"apiVersion": "v1", "kind": "ScaleIn"}, None),
        ({"kind": ["ScaleIn"]}, None),
        ({}, None),
    ],
)
def test_kind_of_a_scaler(body: Wire, kind: ScalerKind | None) -> None:
    assert find_scaler_kind(body) is kind


@pytest.mark.parametrize("letter", ["a", "\x01", "é", "\U0001f600", '"'])
def test_variables_without_a_fault_fit_into_a_request(letter: str) -> None:
    accepted = 0
    for count in range(1, MAX_VARIABLES + 1):
        body = build_scaler(IN)
        body["spec"]["env"] = [{"name": f"A{i}", "value": letter * 4096} for i in range(count)]
        try:
            spec, _ = decode_scaler_spec(IN, body)
        except FieldErrors:
            break
        request = ScaleRequest(
            uid="u",
            is_scale_in=True,
            role="worker",
            indexes=tuple(range(MAX_WORKERS)),
            hosts=("2001:db8::1234:5678",) * (2 * MAX_WORKERS),
            slots=1,
            script=letter * MAX_SCRIPT_CHARS,
            env=tuple(sorted(spec.env)),
            timeout_seconds=1,
        )
        assert decode_request(encode_request(request)) == request
        accepted = count
    assert 1 < accepted < MAX_VARIABLES
