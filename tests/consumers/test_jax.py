"""JAX with the variables rendered for it: what it makes of them, and gangs that really form."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.api.roster import Member, Roster
from rendezvous.site import peers
from tests.consumers.stacks import (
    COUNTS,
    FAMILIES,
    ask,
    explain,
    list_addresses,
    require_python,
    run_program,
    write_volume,
)
from tests.rendezvous.gangs import IPV6, build_gang, build_role, build_roster
from tests.support.servers.childprocess import find_free_ports

# Everything is JAX's own up to where it would connect.
RECORD = """
from types import SimpleNamespace
from unittest import mock
import peers
from jax._src import distributed
said = {}
class Client:
    def connect(self): pass
def get_service(bind, size, **options):
    said["bind"] = bind
    return SimpleNamespace()
def get_client(address, rank, **options):
    said["address"], said["rank"] = address, rank
    return Client()
with mock.patch.multiple(
    distributed._jax,
    get_distributed_runtime_service=get_service, get_distributed_runtime_client=get_client,
), mock.patch.object(distributed.State, "initialize_preemption_sync_manager"):
    peers.initialize_jax()
said["size"] = distributed.global_state.num_processes
answer(said)
"""
FORM = """
import jax
import peers
from jax.experimental import multihost_utils
peers.initialize_jax()
print([jax.process_index(), multihost_utils.process_allgather(jax.process_index()).tolist()])
jax.distributed.shutdown()
"""


def bring_peers(directory: Path) -> None:
    """Put the package where the script finds it, as the agent's site folder does."""
    shutil.copytree(Path(peers.__file__).parent, directory / "peers")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_jax_takes_coordinator_size_and_rank(count: int, family: str, tmp_path: Path) -> None:
    bring_peers(tmp_path)
    rendering = write_volume(tmp_path, build_gang(count, family), index=count - 1)
    first = list_addresses(count, family)[0]
    expected = {
        "address": f"[{first}]:8476" if family == IPV6 else f"{first}:8476",
        "rank": count - 1,
        "size": count,
    }
    if count == 1:
        expected["bind"] = "[::]:8476"  # only rank 0 serves
    assert ask("jax", RECORD, tmp_path, rendering.env) == expected


def build_local_gang(address: str) -> Roster:
    role = build_role("worker", 2)
    members = tuple(Member(m.index, (address,), m.fingerprint, 0) for m in role.members)
    return build_roster(role._replace(members=members))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_jax_processes_find_one_another(address: str, tmp_path: Path) -> None:
    python = require_python("jax")
    bring_peers(tmp_path)
    (tmp_path / "form.py").write_text(FORM)
    gang = build_local_gang(address)
    settings = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(tmp_path)}
    (port,) = find_free_ports(1)
    envs = [
        write_volume(tmp_path, gang, index=index, jax_coordinator_port=str(port)).env | settings
        for index in (0, 1)
    ]
    with ThreadPoolExecutor() as pool:
        ran = list(pool.map(lambda env: run_program([str(python), "form.py"], tmp_path, env), envs))
    said = [done.stdout.splitlines()[-1:] for done in ran]
    assert said == [["[0, [0, 1]]"], ["[1, [0, 1]]"]], "\n".join(map(explain, ran))
