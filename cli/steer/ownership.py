"""Refuses changes of a Framework that belongs to a job of another kind.

The controller of the job reverts them (docs/config.md, "Other kinds of jobs"). Pure.
"""

import shlex
from collections.abc import Sequence

from cli.exitcodes import CliError, ExitCode
from cli.jobs import JobName, find_job_name
from framework.kinds.tfjob import types as tfjob
from framework.kinds.trainingjob import types as trainingjob
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
    if job is None or all(not path.startswith("/spec") or path == _KEPT_PATH for path in paths):
        return
    if job.kind == tfjob.KIND:
        effect = "puts this change back, and its spec is fixed; change its file, delete"
        raise _refuse(body, job, effect, "delete", end=" and create it again")
    size = _find_size(body, operations)
    if size is None:
        raise _refuse(body, job, "puts this change back; change", "edit")
    raise _refuse(body, job, "puts this change back; scale", "scale", "--replicas", str(size))


def check_deletion(body: Object) -> None:
    """Refuse to delete a Framework that belongs to a job.

    Raises:
        CliError: it would be created again.
    """
    job = find_job_name(body)
    if job:
        raise _refuse(body, job, "creates it again; delete", "delete")


def _find_size(body: Object, operations: Sequence[Object]) -> int | None:
    """Find the number of workers that a change asks for; None if it changes something else."""
    changes = [each for each in operations if each["op"] != "test"]
    roles = (body.get("spec") or {}).get("taskRoles") or ()
    paths = {
        f"/spec/taskRoles/{position}/taskNumber"
        for position, role in enumerate(roles)
        if role.get("name") == trainingjob.WORKER
    }
    if len(changes) != 1 or changes[0]["path"] not in paths:
        return None
    value = changes[0]["value"]
    return value if isinstance(value, int) else None


def _refuse(body: Object, job: JobName, effect: str, *words: str, end: str = "") -> CliError:
    metadata = body["metadata"]
    verb, *options = words
    command = shlex.join(
        ["kubectl", verb, "-n", str(metadata["namespace"]), job.resource, *options]
    )
    return CliError(
        ExitCode.FAILED,
        f"{metadata['name']}: it belongs to the {job.kind} {job.name}, whose controller "
        f"{effect} the job: `{command}`{end}",
    )
