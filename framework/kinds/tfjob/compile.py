"""Compiles a TfJob into a Framework and the objects beside it. Pure.

1. Decode the object and set its defaults; refuse it with all faults.
2. Each replica type becomes a role: ``master``, ``ps``, ``worker``. The attempt ends with the
   master; a failure of another role does not end it.
3. ``restartPolicy`` becomes Never, and the controller retries a Task by the exit code of the
   container ``tensorflow``: 1 to 127 and OOMKilled are permanent, 128 to 255 are retried
   (docs/tfjob.md, "Exit codes"). An annotation of the Pod template says so.
4. Only the container ``tensorflow`` gets TF_CONFIG: from the rendezvous agent that starts its
   command, or, if a template has no command, in all roles as a variable with the names of the
   Services.

Example: MASTER, WORKER and 2 PS without a template become the roles master/0, worker/0, ps/0 and
ps/1, and the Services master-76no-0, worker-76no-0, ps-76no-0 and ps-76no-1.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from framework.api import constants
from framework.api.retryable_codes import RetryableCodes
from framework.kinds import agents
from framework.kinds.agent_objects import build_rights
from framework.kinds.compiled import Compiled, Note, Object
from framework.kinds.decoding import build_metadata, note_misplaced, note_unknown
from framework.kinds.templates import (
    add_default_annotation,
    add_env,
    add_labels,
    translate_gpus,
    translate_restart_policy,
)
from framework.kinds.tfjob.decode import decode_tfjob
from framework.kinds.tfjob.defaults import (
    find_faults,
    find_refused_fields,
    find_tensorflow,
    set_defaults,
)
from framework.kinds.tfjob.supporting import (
    build_labels,
    build_services,
    build_tensorboard,
    name_role,
    render_tf_config,
)
from framework.kinds.tfjob.types import (
    BY_SERVICES,
    CONTAINER,
    JSON_LOGS_ANNOTATION,
    MASTER,
    TF_CONFIG_ANNOTATION,
    TfJob,
    TfReplicaSpec,
)

_LOGS = f"{constants.WORKING_DIR}/agent/site/peers_logs"
# The shell puts the folder before the PYTHONPATH of the image. A variable of the Pod would replace
# that PYTHONPATH.
_WITH_JSON_LOGS = f'export PYTHONPATH="{_LOGS}${{PYTHONPATH:+:$PYTHONPATH}}"; exec "$@"'
_SERVER = f"{constants.WORKING_DIR}/agent/site/peers_tensorflow_server.py"
# Images of TensorFlow before 1.14 have Python 2.7 by the name python, newer ones Python 3.
_RUN_SERVER = f'exec "$(command -v python || command -v python3)" {_SERVER}'
_RETRYABLE_CODES = RetryableCodes(CONTAINER, 128, 255)
_RETRIED = (
    "the kubelet restarts no container; the controller retries a Task whose exit code is 128 to 255"
)
_BOARD_NOTE = Note(
    "spec.tensorboard",
    "is a Deployment, which the end of the job does not delete, as in the original; "
    "a local cluster does not run it",
)


def compile_tfjob(
    body: Mapping[str, Any], *, board_id: str = "", is_by_controller: bool = False
) -> Compiled:
    """Compile a TfJob.

    Args:
        body: the TfJob.
        board_id: value of a label by which the Service of TensorBoard selects its Pod; "" for
            only the labels of the original.
        is_by_controller: whether the controller creates the objects, so that the fields that it
            refuses are faults; otherwise they have notes.

    Raises:
        FieldErrors: with all faults; paths are as the user wrote them.
    """
    job = set_defaults(decode_tfjob(body))
    refused = list(find_refused_fields(job))
    faults = [*find_faults(job), *(refused if is_by_controller else ())]
    if faults:
        raise job.spelling.show_errors(faults)
    notes = [*_note_unknown_fields(job), *(Note(field.path, field.message) for field in refused)]
    framework = _build_framework(job, notes)
    if job.spec.tensorboard is not None:
        notes.append(_BOARD_NOTE)
    return Compiled(
        framework,
        partial(_build_supporting, job, framework, board_id),
        job.spelling.show_notes(notes),
        templates=_map_templates(job),
    )


def _list_replicas(job: TfJob) -> list[tuple[str, TfReplicaSpec]]:
    """List the replica types that become roles, each with its path in the job."""
    return [
        (f"spec.replicaSpecs[{index}]", replica)
        for index, replica in enumerate(job.spec.replica_specs)
        if replica.replicas
    ]


def _build_framework(job: TfJob, notes: list[Note]) -> Object:
    """Build the Framework; add to ``notes`` what was translated in its Pod templates."""
    roles = [_build_role(job, replica, path, notes) for path, replica in _list_replicas(job)]
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": build_metadata(job.meta, job.meta.name, job.meta.labels),
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 0},
            "completedPodPolicy": "Retain",
            "taskRoles": roles,
        },
    }


def _map_templates(job: TfJob) -> dict[str, str]:
    """Map the path of each Pod template in the Framework to its path as the user wrote it."""
    return {
        f"spec.taskRoles[{role}].task.pod": job.spelling.show_path(f"{path}.template")
        for role, (path, _) in enumerate(_list_replicas(job))
    }


def _build_supporting(job: TfJob, framework: Object, board_id: str) -> Iterator[Object]:
    yield from _build_rights(framework)
    yield from build_services(job)
    if job.spec.tensorboard is not None:
        yield from build_tensorboard(job, job.spec.tensorboard, board_id)


def _note_unknown_fields(job: TfJob) -> list[Note]:
    notes = [*note_misplaced(job.meta), *note_unknown(job.spec.extra, "spec")]
    if constants.LEAVE_NODES_ANNOTATION in job.meta.annotations:
        path = f"metadata.annotations[{constants.LEAVE_NODES_ANNOTATION}]"
        notes.append(Note(path, "has no effect on a TfJob: it is for the workers of a TrainingJob"))
    for index, replica in enumerate(job.spec.replica_specs):
        notes += note_unknown(replica.extra, f"spec.replicaSpecs[{index}]")
    if job.spec.tensorboard is not None:
        notes += note_unknown(job.spec.tensorboard.extra, "spec.tensorboard")
    return notes


def _build_rights(framework: Object) -> list[Object]:
    accounts = {
        str(role["task"]["pod"]["spec"]["serviceAccountName"])
        for role in framework["spec"]["taskRoles"]
    }
    return list(build_rights(framework, sorted(accounts), reports=False))


def _build_role(job: TfJob, replica: TfReplicaSpec, path: str, notes: list[Note]) -> Object:
    count = 1 if replica.replica_type == MASTER else constants.UNLIMITED
    return {
        "name": name_role(replica),
        "taskNumber": replica.replicas,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": count,
            "minSucceededTaskCount": count,
        },
        "task": {
            "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 0},
            "podGracefulDeletionTimeoutSec": 600,
            "pod": _build_pod(job, replica, path, notes),
        },
    }


def _build_pod(job: TfJob, replica: TfReplicaSpec, path: str, notes: list[Note]) -> Object:
    if replica.template is None:
        template = _build_default_ps(job)
        notes.append(
            Note(path, f"has no template: runs the server of TensorFlow in {job.spec.tf_image}")
        )
    else:
        template = copy.deepcopy(dict(replica.template))
        place = f"{path}.template"
        notes += translate_restart_policy(template["spec"], place, _RETRIED)
        notes += translate_gpus(template["spec"], place)
    add_labels(template, build_labels(job, replica))
    add_default_annotation(template, constants.RETRYABLE_CODES_ANNOTATION, str(_RETRYABLE_CODES))
    agents.prepare(template, job.meta.name)
    container = find_tensorflow(template)
    if container is None:
        raise AssertionError("find_faults requires the container")
    if not container.get("command"):
        notes.append(_explain_services(path, template, container))
    has_json_logs = _wants_json_logs(job) and replica.template is not None
    if has_json_logs:
        notes += _add_json_logs(path, template, container)
    if _is_by_services(job):
        _set_tf_config(job, replica, container)
        if replica.template is None or has_json_logs:
            agents.add_installer(template)
        agents.add_barrier(template)
    else:
        agents.add_installer(template)
        agents.wrap(template, container, _build_settings(job))
    return template


def _build_default_ps(job: TfJob) -> Object:
    container = {
        "name": CONTAINER,
        "image": job.spec.tf_image,
        "command": ["sh", "-c", _RUN_SERVER],
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def _is_by_services(job: TfJob) -> bool:
    """Return whether TF_CONFIG has the names of the Services; the same for all of its roles."""
    containers = [find_tensorflow(r.template) for r in job.spec.replica_specs if r.template]
    is_chosen = job.meta.annotations.get(TF_CONFIG_ANNOTATION) == BY_SERVICES
    return is_chosen or any(each and not each.get("command") for each in containers)


def _set_tf_config(job: TfJob, replica: TfReplicaSpec, container: Object) -> None:
    """Give the container TF_CONFIG as the original does."""
    add_env(container, {"TF_CONFIG": render_tf_config(job, replica)})


def _wants_json_logs(job: TfJob) -> bool:
    return job.meta.annotations.get(JSON_LOGS_ANNOTATION) == "true"


def _add_json_logs(path: str, template: Object, container: Object) -> Iterator[Note]:
    """Start the command with the folder whose ``sitecustomize`` formats records as JSON."""
    if container.get("command"):
        container["command"] = ["sh", "-c", _WITH_JSON_LOGS, "sh", *container["command"]]
        return
    index = template["spec"]["containers"].index(container)
    yield Note(
        f"{path}.template.spec.containers[{index}].command",
        f"is missing, so that {JSON_LOGS_ANNOTATION} has no effect: write the command of the image",
    )


def _explain_services(path: str, template: Object, container: Object) -> Note:
    index = template["spec"]["containers"].index(container)
    return Note(
        f"{path}.template.spec.containers[{index}].command",
        "is missing, so that the agent cannot start it: TF_CONFIG has the names of the Services, "
        "as in the original",
    )


def _build_settings(job: TfJob) -> dict[str, str]:
    """Build the settings with which the agent renders the TF_CONFIG of the original."""
    ports = ",".join(
        f"{name_role(replica)}={replica.port}"
        for replica in job.spec.replica_specs
        if replica.replicas
    )
    return {
        "FB_PORTS": ports,
        "FB_FORMATS": "tf_config",
        "FB_TF_MASTER_TYPE": "master",
        "FB_TF_ENVIRONMENT": "cloud",
    }
