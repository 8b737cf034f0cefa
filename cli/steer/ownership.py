"""Refuses changes that would not last: those of a Framework that belongs to a job of another kind.

The controller of the job puts the Framework back (docs/config.md, "Other kinds of jobs"). Pure.
"""

import shlex
from collections.abc import Sequence

from cli.exitcodes import CliError, ExitCode
from framework.kinds.catalog import KINDS
from framework.kube.resources import Object

_KEPT_PATH = "/spec/executionType"


def check_change(body: Object, operations: Sequence[Object]) -> None:
    """Refuse a change of the spec of a Framework that belongs to a job.

    ``executionType`` is left to users by the controller of the job, and so are annotations.

    Args:
        body: the Framework.
        operations: the JSON patch, with its tests.

    Raises:
        CliError: the change would be put back.
    """
    job = _find_job(body)
    paths = [str(each["path"]) for each in operations if each["op"] != "test"]
    if job and any(path.startswith("/spec") and path != _KEPT_PATH for path in paths):
        raise _refuse(body, job, "puts this change back; change", "edit")


def check_deletion(body: Object) -> None:
    """Refuse to delete a Framework that belongs to a job.

    Raises:
        CliError: it would be created again.
    """
    job = _find_job(body)
    if job:
        raise _refuse(body, job, "creates it again; delete", "delete")


def _find_job(body: Object) -> Object | None:
    owners = body["metadata"].get("ownerReferences") or ()
    jobs = (each for each in owners if (each["apiVersion"], each["kind"]) in KINDS)
    return next((job for job in jobs if job.get("controller") is True), None)


def _refuse(body: Object, job: Object, effect: str, verb: str) -> CliError:
    metadata = body["metadata"]
    group = str(job["apiVersion"]).partition("/")[0]
    resource = f"{str(job['kind']).lower()}.{group}/{job['name']}"
    command = f"kubectl {verb} -n {shlex.quote(str(metadata['namespace']))} {shlex.quote(resource)}"
    return CliError(
        ExitCode.FAILED,
        f"{metadata['name']}: it belongs to the {job['kind']} {job['name']}, whose controller "
        f"{effect} the job: `{command}`",
    )
