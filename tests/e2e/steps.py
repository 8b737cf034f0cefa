"""Steps that several tests of whole gangs take."""

from typing import Any

from framework.api import constants
from framework.kinds.agent_objects import build_key_mount, build_key_volume
from framework.kube.resources import PODS, Object
from tests.support.fakes.kubelet import ENDED_PHASES
from tests.support.machine.processes import read_stat
from tests.support.servers.childprocess import find_free_ports
from tests.support.servers.gang import Change, GangCluster, find_processes

AGENT = "rendezvous"
ZIPAPP = f"{constants.WORKING_DIR}/agent/rendezvous.pyz"


def build_agent(*arguments: str, **env: str) -> Object:
    return {
        "name": AGENT,
        "image": "frameworkbarrier/framework-rendezvous",
        "args": list(arguments),
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": [
            {"name": "barrier", "mountPath": constants.WORKING_DIR},
            {"name": "gate", "mountPath": "/gate"},
        ],
    }


def wrap_command(role: Object) -> None:
    """Let the wrapper run the command of a role's Pods."""
    pod = role["task"]["pod"]
    pod["metadata"] = {"annotations": {constants.WRAPPER_ANNOTATION: "true"}}
    pod["spec"]["initContainers"] = [build_agent("install")]
    main = pod["spec"]["containers"][0]
    main["command"] = ["python3", ZIPAPP, "run", "--", *main["command"]]


def restart_in_place(role: Object, max_restarts: int, *, grace_seconds: int = 1) -> None:
    """Let the wrapper restart the command of a role's Pods in them, with those of the gang."""
    wrap_command(role)
    (port,) = find_free_ports(1)
    in_place = {constants.MAX_RESTARTS_FIELD: max_restarts, constants.WITHIN_SECONDS_FIELD: 600}
    role[constants.RECOVERY_FIELD] = {constants.IN_PLACE_FIELD: in_place}
    spec = role["task"]["pod"]["spec"]
    spec["volumes"].append(build_key_volume())
    main = spec["containers"][0]
    mount = build_key_mount()
    main["volumeMounts"].append(mount)
    main["env"] = [
        {"name": "FB_GANG_KEY_FILE", "value": f"{mount['mountPath']}/{constants.GANG_KEY}"},
        {"name": "FB_BARRIER_PORT", "value": str(port)},
        {"name": "FB_STOP_GRACE_SEC", "value": str(grace_seconds)},
    ]


async def scale(world: GangCluster, count: int, role: int = 0) -> None:
    path = f"/spec/taskRoles/{role}/taskNumber"
    await world.patch_spec("gang", {"op": "replace", "path": path, "value": count})


async def wait_until_deleted(world: GangCluster, name: str, **options: Any) -> Change:
    def is_deleted(change: Change) -> bool:
        return change.type == "DELETED" and change.name == name

    return await world.wait_for(f"deletion of {name}", is_deleted, **options)


async def wait_until_ended(world: GangCluster, name: str) -> Change:
    """Wait for the end of a Pod: the watch of Pods may lag behind that of Frameworks."""

    def is_ended(change: Change) -> bool:
        phase = change.status.get("phase")
        return change.resource is PODS and change.name == name and phase in ENDED_PHASES

    return await world.wait_for(f"end of {name}", is_ended)


async def wait_until_succeeded(world: GangCluster) -> Object:
    done = await world.wait_for_state("Completed")
    completion = done["status"]["attemptStatus"]["completionStatus"]
    assert (completion["code"], completion["type"]["name"]) == (0, "Succeeded"), completion
    return done


def find_agent(world: GangCluster, pod: str) -> int:
    """Find the agent's process of a Pod: other tests that run now have Pods of the same name."""
    (uid,) = world.list_pods()[pod]
    found = [pid for pid, line in find_processes(f"{constants.POD_UID}={uid}\0") if AGENT in line]
    # A command that it starts looks like itself for a moment.
    (agent,) = [pid for pid in found if read_parent(pid) not in {None, *found}]
    return agent


def read_parent(pid: int) -> int | None:
    """Read the parent's id; None if the process has ended."""
    try:
        return int(read_stat(pid)[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
