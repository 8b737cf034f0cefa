"""The Framework that the tests of `framework inject` give it, and what they read of its answer."""

import subprocess
import sys
from typing import Any


def build(**role: Any) -> dict[str, Any]:
    """Build a Framework of one role, which has these fields besides."""
    container = {"name": "main", "image": "app:1", "command": ["train"], "args": ["--fast"]}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "job"},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "taskRoles": [
                {
                    "name": "worker",
                    "taskNumber": 2,
                    "frameworkAttemptCompletionPolicy": {
                        "minFailedTaskCount": 1,
                        "minSucceededTaskCount": -1,
                    },
                    "task": {
                        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
                        "podGracefulDeletionTimeoutSec": 600,
                        "pod": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                    },
                    **role,
                }
            ],
        },
    }


def get_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the spec of the first role's Pods, in the Framework that comes last."""
    spec: dict[str, Any] = objects[-1]["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    return spec


def run_inject(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command with this text as its input."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "inject", *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
