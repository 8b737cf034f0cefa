"""Fields of a TrainingJob that are fixed once its Framework exists."""

import pytest

from framework.api.fielderrors import FieldErrors
from framework.kinds.trainingjob.compile import compile_trainingjob
from framework.kinds.trainingjob.fixed import hold_fields, read_slots, read_values
from tests.framework.kinds.jobs import Change, build_trainingjob, edit

SECRET = "arena.kubeflow.org/ssh-secret"
HOSTS = "frameworkbarrier.io/hosts"
WORKER = ("spec", "etReplicaSpecs", "worker")
GPUS = {"limits": {"nvidia.com/gpu": "4"}}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (edit("spec", launcherAttachMode="kubexec"), "spec.launcherAttachMode"),
        (edit("spec", slotsPerWorker=7), "spec.slotsPerWorker"),
        (
            edit(*WORKER, "template", "spec", "containers", 0, resources=GPUS),
            "spec.slotsPerWorker (by default, the limit of nvidia.com/gpu of the workers)",
        ),
        (edit("metadata", annotations={SECRET: "other"}), f"metadata.annotations[{SECRET}]"),
        (edit("metadata", annotations={HOSTS: "names"}), f"metadata.annotations[{HOSTS}]"),
    ],
    ids=["mode", "slots", "gpus", "secret", "hosts"],
)
def test_changed_field_is_named_and_the_stored_value_is_compiled(change: Change, path: str) -> None:
    before = build_trainingjob()
    values = hold_fields(before, {}).values
    job = build_trainingjob(restartPolicy="OnFailure")
    change(job)
    held = hold_fields(job, values)
    assert held.changed == (path,)
    assert held.values == values
    framework = compile_trainingjob(held.body).framework
    assert framework["spec"]["retryPolicy"]["maxRetryCount"] == 6
    expected = compile_trainingjob(before).framework
    launchers = [body["spec"]["taskRoles"][0] for body in (framework, expected)]
    assert launchers[0] == launchers[1]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.launcherAttachMode", "telnet"),
        ("spec.launcherAttachMode", 3),
        ("spec.slotsPerWorker", 0),
        ("spec.slotsPerWorker", "2"),
        (f"metadata.annotations[{SECRET}]", "No Secret"),
        (f"metadata.annotations[{SECRET}]", 3),
        (f"metadata.annotations[{HOSTS}]", ""),
    ],
)
def test_stored_value_that_no_job_can_have_is_replaced_by_that_of_the_spec(
    path: str, value: str | int
) -> None:
    job = build_trainingjob()
    values = hold_fields(job, {}).values
    assert path in values
    held = hold_fields(job, {**values, path: value})
    assert held.values == values
    assert held.changed == ()
    assert held.body == job
    # The values of other fields stay in use.
    changed = build_trainingjob(slotsPerWorker=7, launcherAttachMode="kubexec")
    both = hold_fields(changed, {**values, path: value})
    for other in {"spec.launcherAttachMode", "spec.slotsPerWorker"} - {path}:
        assert both.values[other] == values[other]


def test_written_default_and_other_fields_are_no_change() -> None:
    values = hold_fields(build_trainingjob(), {}).values
    job = build_trainingjob(launcherAttachMode="ssh", slotsPerWorker=2, cleanPodPolicy="None")
    job["metadata"]["annotations"] = {HOSTS: "addresses"}
    held = hold_fields(job, values)
    assert held.changed == ()
    assert held.body == job


def test_job_with_faults_is_refused() -> None:
    with pytest.raises(FieldErrors) as caught:
        hold_fields(build_trainingjob(slotsPerWorker=0), {})
    assert [error.path for error in caught.value.errors] == ["spec.slotsPerWorker"]


def test_values_of_another_form_count_as_absent() -> None:
    assert read_values({}) == read_values({"fixedFields": 3}) == {}
    assert read_values({"fixedFields": {"a": 1, "b": True, "c": [1]}}) == {"a": 1}
    assert read_slots({"fixedFields": {"spec.slotsPerWorker": 3}}) == 3
    for value in ("3", 0, 9999):
        assert read_slots({"fixedFields": {"spec.slotsPerWorker": value}}) is None
