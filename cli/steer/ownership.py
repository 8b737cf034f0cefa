"""Refuses changes of a Framework that belongs to a job of another kind.

The controller of the job reverts them (docs/config.md, "Other kinds of jobs"). Pure.
"""

import shlex
from collections.abc import Sequence

from cli.exitcodes import CliError, ExitCode
from cli.jobs import JobName, find_job_name
from framework.kube.resources import Object

_KEPT_PATH = "/spec/executionType"


def check_change(body: Object, operations: Sequence[Object]) -> None:
    """Refuse a change of the spec of a Framework that belongs to a job.

    ``executionType`` is left to users by the controller of the job, and so are annotations.

    Args:
        body: the Framework.
        operations: the JSON patch, with its tests.

    Raises:
        CliError: the change would be reverted.
    """
    job = find_job_name(body)
    paths = [str(each["path"]) for each in operations if each["op"] != "test"]
    if job and any(path.startswith("/spec") and path != _KEPT_PATH for path in paths):
        raise _refuse(body, job, "puts this change back; change", "edit")


def check_deletion(body: Object) -> None:
    """Refuse to delete a Framework that belongs to a job.

    Raises:
        CliError: it would be created again.
    """
    job = find_job_name(body)
    if job:
        raise _refuse(body, job, "creates it again; delete", "delete")


def _refuse(body: Object, job: JobName, effect: str, verb: str) -> CliError:
    metadata = body["metadata"]
    command = (
        f"kubectl {verb} -n {shlex.quote(str(metadata['namespace']))} {shlex.quote(job.resource)}"
    )
    return CliError(
        ExitCode.FAILED,
        f"{metadata['name']}: it belongs to the {job.kind} {job.name}, whose controller "
        f"{effect} the job: `{command}`",
    )
