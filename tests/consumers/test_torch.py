"""torchrun's argument parser and rendezvous parameters, and DeepSpeed's host file parser."""

from pathlib import Path

import pytest

from tests.consumers.stacks import COUNTS, FAMILIES, ask, list_addresses, write_volume
from tests.rendezvous.gangs import IPV6, build_gang

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
DEEPSPEED = """
from deepspeed.launcher.runner import fetch_hostfile
answer(fetch_hostfile("current/hosts.deepspeed"))
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


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_deepspeed_reads_every_host_with_its_slots(count: int, family: str, tmp_path: Path) -> None:
    write_volume(tmp_path, build_gang(count, family), slots="8")
    hosts = ask("torch", DEEPSPEED, tmp_path)
    assert hosts == dict.fromkeys(list_addresses(count, family), 8)


def test_deepspeed_reads_names(tmp_path: Path) -> None:
    write_volume(tmp_path, build_gang(2, IPV6), host_style="name")
    assert ask("torch", DEEPSPEED, tmp_path) == {"job-worker-0": 1, "job-worker-1": 1}
