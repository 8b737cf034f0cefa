"""JAX with the variables rendered for it: a gang of one really initializes."""

from pathlib import Path

from framework.api.roster import Member
from tests.consumers.stacks import ask, write_volume
from tests.rendezvous.gangs import build_role, build_roster

INITIALIZE = """
import os
import jax
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
    cluster_detection_method="deactivate",
)
answer([jax.process_index(), jax.process_count()])
"""


def test_jax_takes_the_coordinator_from_the_variable(tmp_path: Path) -> None:
    role = build_role("worker", 1)
    fingerprint = role.members[0].fingerprint
    role = role._replace(members=(Member(0, ("127.0.0.1",), fingerprint, 0),))
    rendering = write_volume(tmp_path, build_roster(role), jax_coordinator_port="28476")
    env = {**rendering.env, "JAX_PLATFORMS": "cpu"}
    assert ask("jax", INITIALIZE, tmp_path, env) == [0, 1]
