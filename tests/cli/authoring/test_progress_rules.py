"""`framework lint` on settings of progress: examples/recovery.yaml, with one fault each."""

from collections.abc import Callable
from typing import Any

import pytest

from cli.authoring.rules import LintOptions, lint
from tests.cli.authoring.test_recovery_rules import (
    add_role,
    build,
    get_container,
    get_role,
    set_env,
)

CONTAINER = "spec.taskRoles[0].task.pod.spec.containers[0]"
ANNOTATION = "frameworkbarrier.io/progress-timeout-sec"


def watch_only(framework: Any) -> None:
    del get_role(framework)["recovery"]
    get_container(framework)["args"] = []
    get_container(framework)["command"][-2:] = ["watch"]
    set_env(framework, "FB_PROGRESS_TIMEOUT_SEC", "60")
    set_env(framework, "FB_SIDECAR_END", "pod")


def differ(framework: Any, limit: str) -> None:
    add_role(framework, "master")
    set_env(framework, "FB_PROGRESS_TIMEOUT_SEC", limit)


def add_evaluator(framework: Any) -> None:
    add_role(framework, "evaluator", recovery=None)
    set_env(framework, "FB_PROGRESS_TIMEOUT_SEC", "60")


def report_only(framework: Any) -> None:
    set_env(framework, "FB_PROGRESS_STATUS", "on")
    set_env(framework, "FB_PROGRESS_PATTERN", "step {step}")


def report_by_watch(framework: Any) -> None:
    watch_only(framework)
    set_env(framework, "FB_PROGRESS_TIMEOUT_SEC", "0")
    set_env(framework, "FB_PROGRESS_STATUS", "on")


def report_silently(framework: Any) -> None:
    del get_role(framework)["recovery"]
    report_only(framework)
    set_env(framework, "FB_ACKNOWLEDGE", "off")


def annotate(framework: Any) -> None:
    get_role(framework)["task"]["pod"]["metadata"]["annotations"][ANNOTATION] = "60"
    set_env(framework, "FB_PROGRESS_PATTERN", "step {step}")


def limit_first(framework: Any, first: str, limit: str = "60") -> None:
    set_env(framework, "FB_PROGRESS_TIMEOUT_SEC", limit)
    if first:
        set_env(framework, "FB_FIRST_PROGRESS_TIMEOUT_SEC", first)


FAULTS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "no wrapper": (watch_only, CONTAINER, "`watch` does not look for hangs"),
    "pattern without a limit": (
        lambda f: set_env(f, "FB_PROGRESS_PATTERN", "step {step}"),
        f"{CONTAINER}.env",
        "FB_PROGRESS_PATTERN has no effect without FB_PROGRESS_TIMEOUT_SEC",
    ),
    "report without a wrapper": (
        report_by_watch,
        CONTAINER,
        "FB_PROGRESS_STATUS=on has no effect: `watch` does not look for hangs",
    ),
    "report that may not be written": (
        report_silently,
        f"{CONTAINER}.env",
        "FB_PROGRESS_STATUS=on patches the Pod, and FB_ACKNOWLEDGE is off",
    ),
    "role without a limit": (
        lambda f: differ(f, "60"),
        "spec.taskRoles[1].task.pod.spec.containers[0].env",
        "is 0, but 60 in the role worker: a hang of its ranks is not found",
    ),
    "first step sooner than the others": (
        lambda f: limit_first(f, "30"),
        f"{CONTAINER}.env",
        "FB_FIRST_PROGRESS_TIMEOUT_SEC is 30, below FB_PROGRESS_TIMEOUT_SEC (60): a first step",
    ),
    "limit above the default of the first step": (
        lambda f: limit_first(f, "", "3600"),
        f"{CONTAINER}.env",
        "FB_FIRST_PROGRESS_TIMEOUT_SEC is 1800, below FB_PROGRESS_TIMEOUT_SEC (3600)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_setting_without_effect_is_found(name: str) -> None:
    change, path, message = FAULTS[name]
    framework = build()
    change(framework)
    (found,) = [each for each in lint(framework, LintOptions()) if "progress" in each.rule]
    assert (found.rule, found.path) == ("unwatched-progress", path)
    assert message in found.message


SOUND: dict[str, Callable[[Any], None]] = {
    "one role": lambda f: set_env(f, "FB_PROGRESS_TIMEOUT_SEC", "60"),
    "off": lambda f: differ(f, "0"),
    "first step without a limit": lambda f: limit_first(f, "0"),
    "first step later": lambda f: limit_first(f, "61"),
    "first step that only the cluster knows": lambda f: limit_first(f, "$(LIMIT)"),
    "value that only the cluster knows": lambda f: differ(f, "$(LIMIT)"),
    "role that does not compute": add_evaluator,
    "report without a limit": report_only,
    "annotation": annotate,
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_settings_have_no_finding(name: str) -> None:
    framework = build()
    SOUND[name](framework)
    assert lint(framework, LintOptions()) == []
