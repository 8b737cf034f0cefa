"""The Framework that tests pass to `inject` and `lint`, and readers of the results."""

import copy
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from cli.authoring.rules import LintOptions, lint
from cli.main import main

SPEC = "spec.taskRoles[0].task.pod.spec"
Change = Callable[[dict[str, Any]], None]
DROPPED = object()


def build(**role: Any) -> dict[str, Any]:
    """Build a Framework of one role; ``role`` changes its fields."""
    container = {"name": "main", "image": "app:1", "command": ["train"], "args": ["--fast"]}
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 0}
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    task = {"retryPolicy": dict(retry), "podGracefulDeletionTimeoutSec": 600, "pod": pod}
    defaults = {"name": "worker", "taskNumber": 2, "frameworkAttemptCompletionPolicy": policy}
    role = {**defaults, "task": task, **role}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "job"},
        "spec": {"executionType": "Start", "retryPolicy": retry, "taskRoles": [role]},
    }


def get_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the spec of the first role's Pods, in the Framework that comes last."""
    spec: dict[str, Any] = objects[-1]["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    return spec


def edit(place: str, **fields: Any) -> Change:
    """Build the change that sets fields of the Framework, or drops them (DROPPED)."""

    def change(framework: dict[str, Any]) -> None:
        role, spec = framework["spec"]["taskRoles"][0], get_spec([framework])
        target = {
            "metadata": framework["metadata"],
            "framework": framework["spec"],
            "role": role,
            "pod": role["task"]["pod"],
            "spec": spec,
            "main": spec["containers"][0],
            "barrier": (spec.get("initContainers") or [{}])[0],
            "sidecar": (spec.get("initContainers") or [{}])[-1],
        }[place]
        target.update(fields)
        for key in [key for key, value in fields.items() if value is DROPPED]:
            del target[key]

    return change


def find_places(framework: dict[str, Any]) -> list[tuple[str, str]]:
    """Lint the Framework; return rule and path of each finding."""
    before = copy.deepcopy(framework)
    found = lint(framework, LintOptions())
    assert framework == before
    return [(finding.rule, finding.path) for finding in found]


def run_inject(*words: str, given: str | None = None) -> Result:
    """Run the command with this text as its input."""
    return CliRunner().invoke(main, ["inject", *words], input=given)
