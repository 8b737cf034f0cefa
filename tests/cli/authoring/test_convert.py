"""`framework convert`: what it prints, warns of and refuses; `lint` takes the same files."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from cli.main import main
from tests.framework.kinds import test_scaling_faults, test_tfjob_faults, test_trainingjob_faults
from tests.framework.kinds.jobs import Change, build_template, build_tfjob, build_trainingjob
from tests.support.servers.frameworkcrd import ROOT

KUBEXEC = ROOT / "examples" / "stacks" / "trainingjob-kubexec.yaml"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"a": "b"}}

ADD_ONE = {"selector": {"name": "elastic"}, "toAdd": {"count": 1}}


def build_scaler(**fields: Any) -> Any:
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "ScaleIn",
        "metadata": {"generateName": "scale-"},
        "spec": {"selector": {"name": "elastic"}, "toDelete": {"count": 1}},
        **fields,
    }


def call(command: str, *documents: Any) -> Result:
    text = yaml.safe_dump_all(documents)
    return CliRunner().invoke(main, [command, "-"], input=text)


def test_convert_prints_what_each_becomes_and_keeps_the_rest() -> None:
    done = call("convert", CONFIG, build_tfjob(), build_trainingjob())
    assert done.exit_code == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    assert objects[0] == CONFIG
    names = [body["metadata"]["name"] for body in objects if body["kind"] == "Framework"]
    assert names == ["job", "elastic"]
    assert "TfJob" not in done.stdout


def test_convert_warns_of_what_is_translated_on_standard_error() -> None:
    done = call("convert", CONFIG, build_tfjob())
    (first, *_) = done.stderr.splitlines()
    assert first.startswith(
        "warning: standard input:23: TfJob job: spec.replicaSpecs[0].template.spec.restartPolicy: "
        "is OnFailure;"
    )
    assert "warning" not in done.stdout


def test_convert_twice_prints_the_same() -> None:
    first, second = (call("convert", build_tfjob()) for _ in range(2))
    assert first.stdout == second.stdout
    again = CliRunner().invoke(main, ["convert", "-"], input=first.stdout)
    assert again.exit_code == 2
    assert "nothing to convert in it" in again.stderr


def test_convert_writes_a_file(tmp_path: Path) -> None:
    source, target = tmp_path / "job.yaml", tmp_path / "out.yaml"
    source.write_text(yaml.safe_dump(build_trainingjob()))
    done = CliRunner().invoke(main, ["convert", str(source), "-o", str(target)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"{target}: 7 objects; 1 converted" in done.stderr
    assert [body["kind"] for body in yaml.safe_load_all(target.read_text())] == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "RoleBinding",
        "Service",
        "Service",
        "Framework",
    ]


@pytest.mark.parametrize("command", ["convert", "lint"])
def test_faults_are_reported_together_and_nothing_is_printed(command: str) -> None:
    faulty = build_trainingjob(slotsPerWorker=0, backoffLimit=-1)
    done = CliRunner().invoke(main, [command, "-"], input=yaml.safe_dump_all([CONFIG, faulty]))
    assert (done.exit_code, done.stdout) == (2, "")
    lines = [line.split(": ")[2:4] for line in done.stderr.splitlines() if "standard input" in line]
    title = "TrainingJob elastic"
    assert lines == [[title, "spec.slotsPerWorker"], [title, "spec.backoffLimit"]]


def test_hostile_text_is_escaped() -> None:
    body = build_tfjob(runtimeId="\x1b[31m")
    done = call("convert", body)
    assert done.exit_code == 2
    assert "\x1b" not in done.stderr


def test_document_that_is_no_object_is_named() -> None:
    done = call("convert", "text")
    assert (done.exit_code, "must be an object" in done.stderr) == (2, True)


@pytest.mark.parametrize("container", ["containers[0]", "initContainers[1]"])
@pytest.mark.parametrize(
    ("job", "title", "path"),
    [
        (build_trainingjob, "TrainingJob elastic", "spec.etReplicaSpecs.launcher.template"),
        (build_tfjob, "TfJob job", "spec.replicaSpecs[0].template"),
    ],
)
def test_lint_names_the_field_of_the_job_not_that_of_its_framework(
    job: Callable[[], Any], title: str, path: str, container: str
) -> None:
    body = job()
    *_, template = _walk(body["spec"], path)
    init = {"image": "app:1", "command": ["true"]}
    template["spec"]["initContainers"] = [{"name": name, **init} for name in ("first", "second")]
    *_, faulty = _walk(body["spec"], f"{path}.spec.{container}")
    faulty["commands"] = ["true"]
    lines = call("lint", CONFIG, body).stdout.splitlines()
    (line,) = (line for line in lines if "commands" in line)
    assert f": {title}: {path}.spec.{container}.commands: " in line
    text = yaml.safe_dump_all([CONFIG, body]).splitlines()
    number = int(line.split(":")[2])
    assert text[number - 1].strip().lstrip("- ").startswith("commands:")


def _walk(spec: Any, path: str) -> Iterator[Any]:
    for step in re.findall(r"[^.\[\]]+", path)[1:]:
        spec = spec[int(step) if step.isdecimal() else step]
        yield spec


def test_lint_takes_the_kinds_as_they_are() -> None:
    done = call("lint", build_tfjob(), build_trainingjob())
    assert (done.exit_code, done.stdout) == (0, "nothing found\n")
    assert "note: standard input:16: TfJob job: spec.replicaSpecs[0]" in done.stderr
    broken = build_tfjob()
    broken["spec"]["replicaSpecs"][0]["template"] = build_template(args=[8080])
    found = call("lint", broken)
    assert found.exit_code == 1
    assert "containers[0].args[0]: 8080 is not a string" in found.stdout


@pytest.mark.parametrize("command", ["convert", "lint"])
def test_other_version_of_a_kind_is_named(command: str) -> None:
    body = {**build_tfjob(), "apiVersion": "mlkube.io/v1"}
    done = call(command, body, build_trainingjob())
    assert done.exit_code == 2
    assert "apiVersion: is 'mlkube.io/v1'; write mlkube.io/v1beta1" in done.stderr


def test_convert_warns_of_scalers_which_need_a_trainingjob() -> None:
    done = call("convert", build_trainingjob(), build_scaler())
    assert done.exit_code == 0
    assert "kind: ScaleIn stays as it is: it scales a TrainingJob, not a Framework" in done.stderr
    assert list(yaml.safe_load_all(done.stdout))[-1] == build_scaler()


def test_convert_of_scalers_only_says_that_they_stay_as_they_are() -> None:
    done = call("convert", CONFIG, build_scaler(), build_scaler(kind="ScaleOut", spec=ADD_ONE))
    assert (done.exit_code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == (
        "error: standard input:9: ScaleIn scale-: kind: ScaleIn stays as it is: it scales a "
        'TrainingJob, not a Framework (docs/trainingjob.md, "ScaleIn and ScaleOut"); apply it as '
        "it is with kubectl"
    )
    assert "kind: ScaleOut stays as it is" in second


@pytest.mark.parametrize("command", ["convert", "lint"])
def test_faults_of_a_scaler_are_named(command: str) -> None:
    scaler = build_scaler()
    scaler["spec"] = {"toDelete": {"count": 0}}
    done = call(command, build_trainingjob(), scaler)
    assert done.exit_code == 2
    assert "spec.selector: is required: write an object with the name of a job" in done.stderr
    assert "spec.toDelete.count: must be from 1 to 1000, not 0" in done.stderr


def test_lint_takes_a_file_with_a_scaler_only() -> None:
    done = call("lint", build_scaler())
    assert (done.exit_code, done.stderr) == (0, "")
    scaler = build_scaler()
    scaler["spec"]["toDelete"]["podNames"] = ["elastic-worker-1"]
    done = call("lint", scaler)
    assert done.exit_code == 0
    assert (
        "note: standard input: spec.toDelete.count: has no effect beside podNames: remove it"
        in done.stderr
    )


@pytest.mark.parametrize("command", ["convert", "lint"])
def test_kind_with_other_capital_letters_is_named(command: str) -> None:
    for build, kind, meant in (
        (build_tfjob, "TFJob", "TfJob"),
        (build_trainingjob, "trainingJob", "TrainingJob"),
    ):
        done = call(command, {**build(), "kind": kind})
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"error: standard input: kind: is {kind!r}; write {meant}\n"


@pytest.mark.parametrize("command", ["convert", "lint", "run"])
def test_misspelt_scaler_is_named(command: str) -> None:
    for wrong in ("Scalein", "ScaleIns", "ScaleInn"):
        done = call(command, build_scaler(kind=wrong))
        assert (done.exit_code, done.stdout) == (2, "")
        fault = f"error: standard input: kind: is {wrong!r}; write ScaleIn\n"
        assert done.stderr.endswith(fault)
    version = "kai.alibabacloud.com/v1"
    done = call(command, build_scaler(apiVersion=version))
    assert done.exit_code == 2
    assert done.stderr.endswith(f"apiVersion: is {version!r}; write {version}alpha1\n")


def test_lint_finds_pods_that_are_no_workers_of_the_job_of_a_scale_in() -> None:
    spec = {"selector": {"name": "elastic"}, "toDelete": {"podNames": ["other-worker-0"]}}
    done = call("lint", build_scaler(spec=spec))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "spec.toDelete.podNames[0]: 'other-worker-0' is not the name of a worker" in done.stderr


@pytest.mark.parametrize("options", [[], ["--local"], ["--dry-run=client"]])
def test_run_of_a_scaler_says_how_it_is_applied(options: list[str]) -> None:
    text = yaml.safe_dump(build_scaler())
    done = CliRunner().invoke(main, ["run", *options, "-"], input=text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "kind: ScaleIn scales a TrainingJob that runs" in done.stderr
    assert "apply the TrainingJob and then this file with kubectl" in done.stderr
    assert "before" not in done.stderr


def test_missing_field_of_a_job_offers_the_misspelt_one() -> None:
    job = build_trainingjob()
    job["spec"]["etReplicaSpec"] = job["spec"].pop("etReplicaSpecs")
    done = call("convert", job)
    assert done.exit_code == 2
    assert done.stderr.endswith("; write `etReplicaSpecs` for `etReplicaSpec`\n")


def test_lint_finds_nothing_in_the_example_of_a_trainingjob() -> None:
    done = CliRunner().invoke(main, ["lint", str(KUBEXEC)])
    assert (done.exit_code, done.stdout) == (0, "nothing found\n")


def list_mistakes() -> Iterator[Any]:
    """List faulty objects of each kind: body, path of the fault, part of its message."""
    for build, mistakes in (
        (build_tfjob, test_tfjob_faults.MISTAKES),
        (build_trainingjob, test_trainingjob_faults.MISTAKES),
    ):
        for name, (change, path, message) in mistakes.items():
            yield build_mistake(build(), change, path, message, name)
    for kind, change, path, message, name in test_scaling_faults.MISTAKES:
        body = test_scaling_faults.build_scaler(kind)
        yield build_mistake(body, change, path, message, name)


def build_mistake(body: Any, change: Change, path: str, message: str, name: str) -> Any:
    kind = body["kind"]
    change(body)
    return pytest.param(body, path, message, id=f"{kind}-{name}")


MISTAKES = list(list_mistakes())


@pytest.mark.parametrize(("body", "path", "message"), MISTAKES)
def test_lint_names_the_field_of_a_mistake_with_reason_and_remedy(
    body: Any, path: str, message: str
) -> None:
    done = call("lint", body)
    assert (done.exit_code, done.stdout) == (2, "")
    lines = [line.partition(f"standard input: {path}: ")[2] for line in done.stderr.splitlines()]
    assert any(message in line for line in lines), done.stderr


def test_each_kind_has_at_least_fifteen_mistakes() -> None:
    kinds = Counter(str(mistake.id).partition("-")[0] for mistake in MISTAKES)
    assert set(kinds) == {"TfJob", "TrainingJob", "ScaleIn", "ScaleOut"}
    assert min(kinds.values()) >= 15
