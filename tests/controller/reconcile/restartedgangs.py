"""A gang that restarts in place, on the controller's shell in virtual time."""

from framework.api import constants
from framework.kube.resources import Object
from tests.support.builders import FRAMEWORK, build_role_wire
from tests.support.simulator.shell import Shell


def build_restarted_role(number: int) -> Object:
    """Build a role of workers whose processes may restart twice in their Pods."""
    in_place = {constants.MAX_RESTARTS_FIELD: 2, constants.WITHIN_SECONDS_FIELD: 3600}
    return build_role_wire("worker", number, recovery={constants.IN_PLACE_FIELD: in_place})


async def open_restarted_gang() -> Shell:
    """Run two workers that restart in place, until their roster is published."""
    shell = Shell()
    shell.create_framework(taskRoles=[build_restarted_role(2)])
    await shell.run(1.0)
    shell.show()
    await shell.run(1.0)
    for index in range(2):
        shell.patch_pod(f"{FRAMEWORK}-worker-{index}", phase="Running", podIP=f"10.0.0.{index}")
    await shell.run(2.0)
    shell.show()
    await shell.run(1.0)
    return shell
