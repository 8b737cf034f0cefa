"""Compiles a TrainingJob into a Framework and the objects beside it. Pure.

1. Decode the object, refuse it with all faults, and set its defaults.
2. Launcher and workers become the roles ``launcher`` (one Task) and ``worker``. The attempt ends
   with the launcher; the end of a worker does not end it.
3. The launcher waits in its barrier until all workers run at the same time; it fails if a worker
   has ended for good before. The rendezvous agent in a sidecar writes the host files, and an init
   container links them to the paths of the original: /etc/edl/hostfile, /etc/edl/discover_hosts.sh,
   /job/hostfile and their copies in /etc/mpi. Another rendezvous agent, in the container of the
   launcher, carries out the requests of ScaleIn and ScaleOut.
4. ssh: workers without a command run an ssh server. The Secret with the key is mounted at
   /root/.ssh.
5. Workers that leave before their nodes go (annotation) get ``recovery.leaveNodes``, and
   ``minMemberCount``: with so many others, the gang is complete without them, so that the agent of
   the launcher takes them out of the host files.
6. kubexec: the agent is the first process of a worker, and starts commands for the launcher.
   /etc/mpi/kubexec.sh takes the place of ssh there. Both have the gang key.

Example: ``elastic-training`` with 2 workers becomes elastic-training-launcher-0,
elastic-training-worker-0 and elastic-training-worker-1, and a Service for each worker.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from framework.api import constants, images
from framework.api.fielderrors import FieldErrors
from framework.api.leavingcodec import LEAVE_NODES_SPEC
from framework.api.types import CompletedPodPolicy
from framework.kinds import agents
from framework.kinds.agent_objects import build_rights
from framework.kinds.compiled import Compiled, Note, Object, WantedWorkers
from framework.kinds.decoding import build_metadata, note_misplaced, note_unknown
from framework.kinds.templates import (
    add_default_env,
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
from framework.kinds.trainingjob.leavenodes import PATH as LEAVE_NODES_PATH
from framework.kinds.trainingjob.supporting import build_labels, build_services
from framework.kinds.trainingjob.types import (
    LAUNCHER,
    SECRET_ANNOTATION,
    WORKER,
    AttachMode,
    CleanPodPolicy,
    CompleteJob,
    HostStyle,
    ReplicaRestartPolicy,
    TrainingJob,
)

_SSH_DIR = "/root/.ssh"
_SSH_FOLDER = ".ssh"
_KEY, _PUBLIC_KEY, _CONFIG = "id_rsa", "id_rsa.pub", "config"
_SSH_MODE = 0o600
# The command of the original, with a handler of SIGTERM: without a handler, the first process of a
# container ignores this signal.
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
_KUBEXEC = "/etc/mpi/kubexec.sh"
_KUBEXEC_TARGET = f"{constants.WORKING_DIR}/{images.RSH_SCRIPT}"
# With these variables, Open MPI up to 4, Open MPI from 5 on, and Hydra start kubexec.sh in place of
# ssh.
_KUBEXEC_ENV = {
    "OMPI_MCA_plm_rsh_agent": _KUBEXEC,
    "PRTE_MCA_plm_ssh_agent": _KUBEXEC,
    "HYDRA_LAUNCHER_EXEC": _KUBEXEC,
}
_WAIT = "exec sleep 365d"
# As long as the barrier waits, new workers may pull their image before they are in the host files.
_START_SECONDS = "600"
_ALWAYS_NEVER = "the Pods of this kind always have Never, also in the original"
# restartPolicy of the workers -> retry policy of their Tasks.
_RETRIES = {
    ReplicaRestartPolicy.NEVER: (False, 0),
    ReplicaRestartPolicy.ON_FAILURE: (False, constants.UNLIMITED),
    ReplicaRestartPolicy.ALWAYS: (False, constants.EXTENDED_UNLIMITED),
    ReplicaRestartPolicy.EXIT_CODE: (True, 0),
}
# Paths of the Pod templates in the Framework -> in the job.
_TEMPLATES = {
    f"spec.taskRoles[{index}].task.pod": f"spec.etReplicaSpecs.{name}.template"
    for index, name in enumerate((LAUNCHER, WORKER))
}


def compile_trainingjob(
    body: Mapping[str, Any], *, workers: WantedWorkers | None = None, secret: str = ""
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
    launcher, worker = _build_launcher(job, notes), _build_worker(job, notes)
    framework = _build_framework(job, launcher, worker)
    with_agents = [launcher, worker] if _uses_kubexec(job) else [launcher]
    accounts = sorted({str(pod["spec"]["serviceAccountName"]) for pod in with_agents})
    return Compiled(
        framework,
        partial(_build_supporting, job, framework, accounts),
        tuple(notes),
        key_secret="" if _uses_kubexec(job) else job.secret,
        needs_key=not _uses_kubexec(job) and not job.meta.annotations.get(SECRET_ANNOTATION),
        key_notes=() if _uses_kubexec(job) else (_explain_key(job),),
        templates=_TEMPLATES,
        keeps_services=job.clean_pod_policy is CleanPodPolicy.NONE,
    )


def _build_framework(job: CompleteJob, launcher: Object, worker: Object) -> Object:
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": build_metadata(job.meta, job.meta.name, job.meta.labels),
        "spec": {
            "executionType": "Stop" if job.is_suspended else "Start",
            "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": job.max_restarts},
            "completedPodPolicy": "Retain",
            "taskRoles": [
                _build_role(LAUNCHER, 1, launcher, (False, 0)),
                _build_workers(job, worker),
            ],
        },
    }


def _build_supporting(job: CompleteJob, framework: Object, accounts: list[str]) -> Iterator[Object]:
    yield from build_rights(framework, accounts, reports=True)
    yield from build_services(job)


def _note_unknown_fields(job: TrainingJob) -> Iterator[Note]:
    yield from note_misplaced(job.meta)
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
            "minReplicas and maxReplicas limit replicas, ScaleIns and ScaleOuts of the "
            "TrainingJob: a Framework has no such limits",
        )


def _explain(job: CompleteJob) -> Iterator[Note]:
    if job.is_suspended:
        yield Note("metadata.annotations", "the job is suspended: the Framework does not start")
    if job.leave_nodes is not None:
        yield Note(
            LEAVE_NODES_PATH,
            "a worker whose node is about to go is replaced; the host files stay as they are if "
            f"fewer than {job.min_workers} others are ready. The launcher does not leave",
        )
    if _uses_kubexec(job):
        yield Note(
            "spec.launcherAttachMode",
            "kubexec: the images of launcher and workers need python3, 3.7 or newer, with OpenSSL "
            "1.1.1 or newer",
        )


def _explain_key(job: CompleteJob) -> Note:
    creation = "`framework run` creates it; before `kubectl apply` of the Framework, create it"
    if job.meta.annotations.get(SECRET_ANNOTATION):
        creation = "create it before the job"
    return Note(
        "",
        f"the Pods mount the Secret {job.secret} with the keys {_KEY}, {_PUBLIC_KEY} and "
        f'{_CONFIG}: {creation} (docs/trainingjob.md, "ssh")',
    )


def _uses_kubexec(job: CompleteJob) -> bool:
    """Return whether the launcher reaches the workers through our agents, not by ssh."""
    return job.attach_mode is AttachMode.KUBEXEC


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


def _build_workers(job: CompleteJob, pod: Object) -> Object:
    retry = _RETRIES[job.worker_restart_policy]
    role = _build_role(WORKER, job.worker_count, pod, retry)
    keeps_all = job.clean_pod_policy is CleanPodPolicy.NONE
    pods = CompletedPodPolicy.RETAIN_RUNNING if keeps_all else CompletedPodPolicy.RETAIN_UNTIL_END
    role[constants.COMPLETED_POD_POLICY_FIELD] = pods.value
    if job.leave_nodes is not None:
        role[constants.MIN_MEMBER_COUNT_FIELD] = job.min_workers
        role[constants.RECOVERY_FIELD] = {
            constants.LEAVE_NODES_FIELD: LEAVE_NODES_SPEC.encode(job.leave_nodes)
        }
    absent = tuple(sorted(job.absent_workers))
    return {**role, **WantedWorkers(job.worker_count, absent, job.drain_seconds).encode()}


def _build_launcher(job: CompleteJob, notes: list[Note]) -> Object:
    template = _copy_template(job, LAUNCHER, job.launcher, notes)
    container = template["spec"]["containers"][0]
    agents.prepare(template, job.meta.name)
    agents.add_barrier(template, {constants.BARRIER_REQUIRE_ENV: f"{WORKER}=all-running"})
    settings = {
        "slots": f"{WORKER}={job.slots}",
        "reach-running": WORKER,
        "reach-timeout-sec": _START_SECONDS,
    }
    if job.host_style is HostStyle.NAMES:
        settings["host-style"] = "name"
    names = {name: f"FB_{name.replace('-', '_').upper()}" for name in settings}
    agents.add_sidecar(template, {names[name]: value for name, value in settings.items()})
    if container.get("command") or _uses_kubexec(job):
        agents.add_installer(template)
    if container.get("command"):
        agents.add_companion(container, {"scalers": "run", **settings})
    else:
        notes.append(_explain_command())
    links = dict(_LINKS)
    if _uses_kubexec(job):
        agents.mount_gang_key(template, container)
        add_default_env(container, _KUBEXEC_ENV)
        links[_KUBEXEC] = _KUBEXEC_TARGET
    _add_links(template, links)
    return template


def _explain_command() -> Note:
    return Note(
        f"spec.etReplicaSpecs.{LAUNCHER}.template.spec.containers[0].command",
        "is missing, so that no agent can be started beside it: scalers run no script, and neither "
        "they nor workers that leave their nodes wait for the launcher; write the command of the "
        "image",
    )


def _add_links(template: Object, links: Mapping[str, str]) -> None:
    """Link files of the agent to the paths of the original, before the first container starts."""
    spec, container = template["spec"], template["spec"]["containers"][0]
    add_volume(spec, {"name": FILES_VOLUME, "emptyDir": {}})
    commands = (f"ln -sf {target} {path}" for path, target in links.items())
    init: Object = {
        "name": FILES_CONTAINER,
        "image": container.get("image"),
        "command": ["sh", "-c", " && ".join(commands)],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
    }
    # It runs the image of the container, and a namespace may enforce the level `restricted`.
    for key in ("imagePullPolicy", "securityContext"):
        if container.get(key):
            init[key] = copy.deepcopy(container[key])
    for each in (init, container):
        for path in sorted({link.rpartition("/")[0] for link in links}):
            sub_path = path.rpartition("/")[2]
            add_mount(each, {"name": FILES_VOLUME, "mountPath": path, "subPath": sub_path})
    spec["initContainers"] = [*spec["initContainers"], init]


def _build_worker(job: CompleteJob, notes: list[Note]) -> Object:
    template = _copy_template(job, WORKER, job.worker, notes)
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        container["command"] = ["sh", "-c", _WAIT if _uses_kubexec(job) else _SSH_SERVER]
    if _uses_kubexec(job):
        agents.prepare(template, job.meta.name)
        agents.add_installer(template)
        agents.wrap(template, container, {})
        agents.serve_remote_commands(template, container)
        # Open MPI has workers start the daemons of further workers.
        _add_links(template, {_KUBEXEC: _KUBEXEC_TARGET})
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
    if not _uses_kubexec(job):
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
