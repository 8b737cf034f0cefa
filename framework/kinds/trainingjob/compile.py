"""Compiles a TrainingJob into a Framework and the objects beside it. Pure.

1. Decode the object, refuse it with all faults, and set its defaults.
2. Launcher and workers become the roles ``launcher`` (one Task) and ``worker``. The attempt ends
   with the launcher; the end of a worker does not end it.
3. The launcher waits for running workers in its barrier. The rendezvous agent beside it writes the
   host files, and an init container links them to the paths of the original: /etc/edl/hostfile,
   /etc/edl/discover_hosts.sh, /job/hostfile and their copies in /etc/mpi.
4. Workers without a command run an ssh server. The Secret with the key is mounted at /root/.ssh.

Example: ``elastic-training`` with 2 workers becomes elastic-training-launcher-0,
elastic-training-worker-0 and elastic-training-worker-1, and a Service for each worker.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from framework.api import constants
from framework.api.fielderrors import FieldErrors
from framework.kinds import agents
from framework.kinds.agent_objects import build_rights
from framework.kinds.compiled import Compiled, Note, Object, Workers
from framework.kinds.decoding import build_metadata, note_unknown
from framework.kinds.templates import (
    add_labels,
    add_mount,
    add_volume,
    translate_gpus,
    translate_restart_policy,
)
from framework.kinds.trainingjob.decode import decode_trainingjob
from framework.kinds.trainingjob.defaults import (
    FILES_CONTAINER,
    FILES_VOLUME,
    SSH_VOLUME,
    complete,
    find_faults,
)
from framework.kinds.trainingjob.supporting import build_labels, build_services
from framework.kinds.trainingjob.types import (
    LAUNCHER,
    WORKER,
    CleanPodPolicy,
    CompleteJob,
    ReplicaRestartPolicy,
    TrainingJob,
)

_SSH_DIR = "/root/.ssh"
_SSH_FOLDER = ".ssh"
_KEY, _PUBLIC_KEY, _CONFIG = "id_rsa", "id_rsa.pub", "config"
_SSH_MODE = 0o600
# As the original's, but it ends at SIGTERM: the first process of a container ignores it otherwise.
_SSH_SERVER = "trap 'exit 0' TERM; /usr/sbin/sshd && { sleep 365d & wait; }"
_GENERATED = f"{constants.WORKING_DIR}/current"
_SCRIPT = f"{constants.WORKING_DIR}/discover_hosts.sh"
# Path of the original -> file of the rendezvous agent.
_LINKS = {
    "/etc/edl/hostfile": f"{_GENERATED}/hosts.horovod",
    "/etc/edl/discover_hosts.sh": _SCRIPT,
    "/job/hostfile": f"{_GENERATED}/hosts.deepspeed",
    "/etc/mpi/hostfile": f"{_GENERATED}/hosts.horovod",
    "/etc/mpi/discover_hosts.sh": _SCRIPT,
    "/etc/mpi/deepspeed-hostfile": f"{_GENERATED}/hosts.deepspeed",
}
_FILE_DIRS = ("/etc/edl", "/etc/mpi", "/job")
_ALWAYS_NEVER = "the Pods of this kind always have Never, also in the original"
# restartPolicy of the workers -> retry policy of their Tasks.
_RETRIES = {
    ReplicaRestartPolicy.NEVER: (False, 0),
    ReplicaRestartPolicy.ON_FAILURE: (False, constants.UNLIMITED),
    ReplicaRestartPolicy.ALWAYS: (False, constants.EXTENDED_UNLIMITED),
    ReplicaRestartPolicy.EXIT_CODE: (True, 0),
}


def compile_trainingjob(
    body: Mapping[str, Any], *, workers: Workers | None = None, secret: str = ""
) -> Compiled:
    """Compile a TrainingJob.

    Args:
        body: the object.
        workers: the wanted workers; None for those of the spec.
        secret: name of the Secret with the ssh key, if no annotation names one; "" for the name of
            the job.

    Raises:
        FieldErrors: with all faults.
    """
    decoded = decode_trainingjob(body)
    faults = list(find_faults(decoded))
    if faults:
        raise FieldErrors(faults)
    job = complete(decoded, workers, secret)
    notes = [*_note_unknown_fields(decoded), *_explain(job)]
    launcher = _build_launcher(job, notes)
    framework = {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": build_metadata(job.meta, job.meta.name, job.meta.labels),
        "spec": {
            "executionType": "Stop" if job.is_suspended else "Start",
            "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": job.max_restarts},
            "completedPodPolicy": "Retain",
            "taskRoles": [
                _build_role(LAUNCHER, 1, launcher, (False, 0)),
                _build_workers(job, notes),
            ],
        },
    }
    account = str(launcher["spec"]["serviceAccountName"])
    supporting = (*build_rights(framework, [account], drains=False), *build_services(job))
    return Compiled(framework, supporting, tuple(notes))


def _note_unknown_fields(job: TrainingJob) -> Iterator[Note]:
    yield from note_unknown(job.spec.extra, "spec")
    specs = job.spec.replica_specs
    if specs is None:
        return
    yield from note_unknown(specs.extra, "spec.etReplicaSpecs")
    for name, replica in ((LAUNCHER, specs.launcher), (WORKER, specs.worker)):
        if replica is not None:
            yield from note_unknown(replica.extra, f"spec.etReplicaSpecs.{name}")
    launcher, worker = specs.launcher, specs.worker
    if launcher is not None and launcher.restart_policy not in {None, ReplicaRestartPolicy.NEVER}:
        yield Note(
            "spec.etReplicaSpecs.launcher.restartPolicy",
            "left out: the job ends with its launcher; write restartPolicy: OnFailure in spec to "
            "start it again",
        )
    if worker is not None and (worker.min_replicas or worker.max_replicas):
        yield Note(
            "spec.etReplicaSpecs.worker",
            "minReplicas and maxReplicas are left out: a Framework has no such limits",
        )


def _explain(job: CompleteJob) -> Iterator[Note]:
    if job.clean_pod_policy is CleanPodPolicy.NONE:
        yield Note(
            "spec.cleanPodPolicy",
            "None: Pods that have ended stay, but workers that still run end with the launcher",
        )
    if job.is_suspended:
        yield Note("metadata.annotations", "the job is suspended: the Framework does not start")
    yield Note(
        "",
        f"the Pods mount the Secret {job.secret} with the keys {_KEY}, {_PUBLIC_KEY} and "
        f'{_CONFIG}; create it before (docs/trainingjob.md, "ssh")',
    )


def _build_role(name: str, count: int, pod: Object, retry: tuple[bool, int]) -> Object:
    end = 1 if name == LAUNCHER else constants.UNLIMITED
    fancy, max_retries = retry
    return {
        "name": name,
        "taskNumber": count,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": end,
            "minSucceededTaskCount": end,
        },
        "task": {
            "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": max_retries},
            "podGracefulDeletionTimeoutSec": 600,
            "pod": pod,
        },
    }


def _build_workers(job: CompleteJob, notes: list[Note]) -> Object:
    retry = _RETRIES[job.worker_restart_policy]
    role = _build_role(WORKER, job.worker_count, _build_worker(job, notes), retry)
    if job.absent_workers:
        role[constants.ABSENT_TASK_INDICES_FIELD] = sorted(job.absent_workers)
    return role


def _build_launcher(job: CompleteJob, notes: list[Note]) -> Object:
    template = _copy_template(job, LAUNCHER, job.launcher, notes)
    spec, container = template["spec"], template["spec"]["containers"][0]
    agents.prepare(template, job.meta.name)
    agents.add_barrier(template, {constants.BARRIER_REQUIRE_ENV: f"{WORKER}=running"})
    agents.add_sidecar(template, {"FB_SLOTS": f"{WORKER}={job.slots}"})
    add_volume(spec, {"name": FILES_VOLUME, "emptyDir": {}})
    links: Object = {
        "name": FILES_CONTAINER,
        "image": container.get("image"),
        "command": ["sh", "-c", _render_links()],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
    }
    if container.get("imagePullPolicy"):
        links["imagePullPolicy"] = container["imagePullPolicy"]
    for each in (links, container):
        for path in _FILE_DIRS:
            sub_path = path.rpartition("/")[2]
            add_mount(each, {"name": FILES_VOLUME, "mountPath": path, "subPath": sub_path})
    spec["initContainers"] = [*spec["initContainers"], links]
    return template


def _render_links() -> str:
    return " && ".join(f"ln -sf {target} {path}" for path, target in _LINKS.items())


def _build_worker(job: CompleteJob, notes: list[Note]) -> Object:
    template = _copy_template(job, WORKER, job.worker, notes)
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        container["command"] = ["sh", "-c", _SSH_SERVER]
    return template


def _copy_template(
    job: CompleteJob, role: str, given: Mapping[str, Any], notes: list[Note]
) -> Object:
    template: Object = copy.deepcopy(dict(given))
    path = f"spec.etReplicaSpecs.{role}.template"
    if template["spec"].get("restartPolicy"):
        notes += translate_restart_policy(template["spec"], path, _ALWAYS_NEVER)
    template["spec"]["restartPolicy"] = "Never"
    notes += translate_gpus(template["spec"], path)
    add_labels(template, build_labels(job, role))
    _mount_key(template["spec"], job.secret)
    return template


def _mount_key(spec: Object, secret: str) -> None:
    """Mount the key in all containers, under the names that ssh and its server read.

    The files are in a folder of the volume, because all users may write in the volume itself: a
    server does not accept keys from such a directory.
    """
    files = {
        _KEY: _KEY,
        _PUBLIC_KEY: _PUBLIC_KEY,
        "authorized_keys": _PUBLIC_KEY,
        _CONFIG: _CONFIG,
    }
    items = [{"key": key, "path": f"{_SSH_FOLDER}/{name}"} for name, key in files.items()]
    source = {"secretName": secret, "items": items, "defaultMode": _SSH_MODE}
    add_volume(spec, {"name": SSH_VOLUME, "secret": source})
    for container in spec["containers"]:
        mount = {"name": SSH_VOLUME, "mountPath": _SSH_DIR, "subPath": _SSH_FOLDER}
        add_mount(container, mount)
