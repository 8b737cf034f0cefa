"""`framework lint` on restarts in place: examples/recovery.yaml, with one fault each."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cli.authoring.injection import InjectionOptions, inject
from cli.authoring.rules import LintOptions, lint
from framework.api import constants
from framework.api.inplace import ANNOTATION_FORM
from tests.support.servers.frameworkcrd import ROOT

ROLE = "spec.taskRoles[0]"
TEMPLATE = f"{ROLE}.task.pod"
ANNOTATION = f"{TEMPLATE}.metadata.annotations[{constants.IN_PLACE_ANNOTATION}]"


def build() -> Any:
    return yaml.safe_load((ROOT / "examples" / "recovery.yaml").read_text())


def get_role(framework: Any) -> Any:
    return framework["spec"]["taskRoles"][0]


def add_role(framework: Any, name: str, **fields: Any) -> None:
    other = build()["spec"]["taskRoles"][0]
    framework["spec"]["taskRoles"].append({**other, "name": name, **fields})


def annotate(framework: Any, text: str) -> None:
    del get_role(framework)["recovery"]
    annotations = get_role(framework)["task"]["pod"]["metadata"]["annotations"]
    annotations[constants.IN_PLACE_ANNOTATION] = text


def get_container(framework: Any) -> Any:
    return get_role(framework)["task"]["pod"]["spec"]["containers"][0]


def set_env(framework: Any, name: str, value: str) -> None:
    get_container(framework)["env"].append({"name": name, "value": value})


def drop_key(framework: Any) -> None:
    get_role(framework)["task"]["pod"]["spec"]["volumes"].pop()
    get_container(framework)["volumeMounts"].pop()
    del get_container(framework)["env"]


def unwrap(framework: Any) -> None:
    get_container(framework).pop("command")


FAULTS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "role that computes, without it": (
        lambda f: add_role(f, "master", recovery=None),
        "spec.taskRoles[1].recovery.inPlace",
        "is missing: this role computes with worker",
    ),
    "role that does not compute": (
        lambda f: add_role(f, "evaluator"),
        "spec.taskRoles[1].recovery.inPlace",
        "the role evaluator does not compute",
    ),
    "no gang key": (drop_key, f"{TEMPLATE}.spec.volumes", "no volume has the gang key"),
    "no reports": (
        lambda f: set_env(f, "FB_ACKNOWLEDGE", "off"),
        f"{TEMPLATE}.spec.containers[0].env",
        "FB_ACKNOWLEDGE=auto, but it is off",
    ),
    "port that opens too late": (
        lambda f: set_env(f, "FB_REACH", "worker=2222"),
        f"{TEMPLATE}.spec.containers[0].env",
        "FB_REACH waits for a port",
    ),
    "stop that takes too long": (
        lambda f: set_env(f, "FB_STOP_GRACE_SEC", "241"),
        f"{TEMPLATE}.spec.containers[0].env",
        "FB_STOP_GRACE_SEC is 241",
    ),
    "annotation of another form": (lambda f: annotate(f, "3/3600"), ANNOTATION, "cannot be read"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_a_restart_in_place_is_found_where_it_is(name: str) -> None:
    change, path, message = FAULTS[name]
    framework = build()
    change(framework)
    (found,) = lint(framework, LintOptions())
    assert (found.rule, found.path) == ("incomplete-recovery", path)
    assert message in found.message


@pytest.mark.parametrize(
    "change",
    [
        lambda f: annotate(f, ANNOTATION_FORM),
        lambda f: add_role(f, "master"),
        lambda f: add_role(f, "evaluator", recovery=None),
        lambda f: set_env(f, "FB_ROLES", "worker=worker"),
        lambda f: set_env(f, "FB_REACH", "ps=2222"),
        lambda f: set_env(f, "FB_STOP_GRACE_SEC", "240"),
    ],
    ids=[
        "annotation",
        "all that compute",
        "one that does not",
        "kinds by FB_ROLES",
        "port of other roles",
        "longest stop",
    ],
)
def test_sound_restart_in_place_has_no_finding(change: Callable[[Any], None]) -> None:
    framework = build()
    change(framework)
    assert lint(framework, LintOptions()) == []


def test_restart_in_place_without_the_wrapper_is_reported_once() -> None:
    framework = build()
    annotate(framework, ANNOTATION_FORM)
    unwrap(framework)
    rules = [found.rule for found in lint(framework, LintOptions())]
    assert [rule for rule in rules if "recovery" in rule] == ["unwrapped-recovery"]


def test_injected_agents_may_report_processes() -> None:
    """The agents of a role that restarts in place end with 210 if they do not report."""
    *supporting, framework = inject(build(), InjectionOptions())
    assert lint(framework, LintOptions()) == []
    bindings = [body for body in supporting if body["kind"] == "RoleBinding"]
    assert "frameworkbarrier-acknowledge" in [body["roleRef"]["name"] for body in bindings]
