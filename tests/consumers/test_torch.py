"""torchrun's argument parser, its rendezvous parameters, and the handler it finds."""

from pathlib import Path

import pytest

from rendezvous.volume.install import install
from tests.consumers.stacks import COUNTS, FAMILIES, ask, list_addresses, write_volume
from tests.rendezvous.gangs import build_gang, build_role, build_roster
from tests.support.servers.childprocess import find_free_ports

PARSE = """
from torch.distributed.run import get_args_parser, config_from_args
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
args = get_args_parser().parse_args(["train.py"])
config, _, _ = config_from_args(args)
host, port = parse_rendezvous_endpoint(config.rdzv_endpoint, 1)
answer({
    "nodes": [config.min_nodes, config.max_nodes], "nproc": config.nproc_per_node,
    "backend": config.rdzv_backend, "host": host, "port": port, "run_id": config.run_id,
    "rank": args.node_rank, "restarts": config.max_restarts, "local": config.local_addr,
    "configs": {k: str(v) for k, v in config.rdzv_configs.items()},
})
"""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_torchrun_reads_the_static_variables(count: int, family: str, tmp_path: Path) -> None:
    addresses = list_addresses(count, family)
    rendering = write_volume(tmp_path, build_gang(count, family), index=count - 1, slots="2")
    parsed = ask("torch", PARSE, tmp_path, rendering.env)
    assert parsed["nodes"] == [count, count]
    assert (parsed["backend"], parsed["nproc"], parsed["rank"]) == ("static", 2, count - 1)
    assert (parsed["host"], parsed["port"]) == (addresses[0], 29500)
    assert parsed["local"] == addresses[-1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_torchrun_reads_the_elastic_variables(count: int, family: str, tmp_path: Path) -> None:
    addresses = list_addresses(count, family)
    flags = {"torch_mode": "elastic", "torch_nodes": "1:128"}
    rendering = write_volume(tmp_path, build_gang(count, family), index=count - 1, **flags)
    parsed = ask("torch", PARSE, tmp_path, rendering.env)
    assert parsed["nodes"] == [1, 128]
    assert (parsed["backend"], parsed["restarts"]) == ("c10d", 100)
    assert (parsed["host"], parsed["port"]) == (addresses[0], 29400)
    assert parsed["run_id"] == rendering.env["PET_RDZV_ID"]
    assert parsed["configs"]["is_host"] == ("1" if count == 1 else "0")


HANDLER = """
import sys
sys.path.insert(0, "agent/site")
from torch.distributed.elastic.rendezvous import RendezvousParameters, registry
from torch.distributed.run import get_args_parser, config_from_args
config, _, _ = config_from_args(get_args_parser().parse_args(["train.py"]))
registry._register_out_of_tree_handlers()
handler = registry.get_rendezvous_handler(RendezvousParameters(
    config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes,
    config.max_nodes, config.local_addr, **config.rdzv_configs))
found = handler.next_rendezvous()
found.store.set("key", "value")
answer([
    handler.get_backend(), found.rank, found.world_size, found.store.get("key").decode(),
    found.bootstrap_store_info.master_addr, handler.num_nodes_waiting(), handler.shutdown(),
])
"""


def test_torchrun_finds_the_handler_in_the_site_folder(tmp_path: Path) -> None:
    role = build_role("worker", 1)
    role = role._replace(members=(role.members[0]._replace(addresses=("127.0.0.1",)),))
    (port,) = find_free_ports(1)
    rendering = write_volume(
        tmp_path,
        build_roster(role),
        torch_mode="elastic",
        torch_backend="framework",
        torch_rdzv_port=str(port),
    )
    # As the writer leaves it: a generation, and the link to it.
    (tmp_path / "current").rename(tmp_path / "gen-1")
    (tmp_path / "current").symlink_to("gen-1")
    install(str(tmp_path))
    answered = ask("torch", HANDLER, tmp_path, rendering.env)
    assert answered == ["framework", 0, 1, "value", "127.0.0.1", 0, True]
