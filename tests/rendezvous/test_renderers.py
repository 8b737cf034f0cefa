"""The decisions of each renderer: positions, identities, and the gangs that it refuses."""

import json
from typing import Any

import pytest

from framework.api.roster import CompletedTask, Leaving, Roster
from rendezvous.core.refusal import NotConcernedError, RefusedError
from rendezvous.renderers.registry import BUILT_IN
from rendezvous.renderers.rendered import Rendered
from tests.rendezvous.gangs import (
    IPV6,
    build_gang,
    build_mixed,
    build_options,
    build_role,
    build_roster,
    see,
    with_address,
)
from tests.support.servers.frameworkcrd import ROOT


def render(
    name: str, roster: Roster, role: str = "worker", index: int = 0, **flags: str
) -> Rendered:
    return BUILT_IN[name](see(roster, role, index, **flags), build_options(**flags))


def get_lines(rendered: Rendered, name: str) -> list[str]:
    return rendered.files[name].content.decode().splitlines()


def read_tf_config(*args: Any, **flags: Any) -> Any:
    return json.loads(render("tf_config", *args, **flags).env["TF_CONFIG"])


# --- TF_CONFIG --------------------------------------------------------------------------------


def test_dense_tf_config_of_a_gang_with_gaps_uses_the_position() -> None:
    config = read_tf_config(build_roster(build_role("worker", [0, 4, 7])), "worker", 7)
    assert config["task"] == {"type": "worker", "index": 2}
    assert len(config["cluster"]["worker"]) == 3


def test_sparse_tf_config_of_a_worker_is_itself_under_its_index() -> None:
    roster = build_roster(build_role("worker", [0, 4], first=1), build_role("ps", [0, 2], first=9))
    config = read_tf_config(roster, "worker", 4, tf_mode="sparse")
    assert config["cluster"] == {
        "worker": {"4": "10.0.0.6:2222"},
        "ps": {"0": "10.0.0.10:2222", "2": "10.0.0.12:2222"},
    }
    assert config["task"] == {"type": "worker", "index": 4}


def test_tf_config_names_the_evaluator_to_the_evaluator_only() -> None:
    roster = build_mixed(worker=1, evaluator=1)
    assert "evaluator" not in read_tf_config(roster, "worker")["cluster"]
    config = read_tf_config(roster, "evaluator")
    assert config["cluster"]["evaluator"] == ["10.0.0.12:2222"]
    assert config["task"] == {"type": "evaluator", "index": 0}


@pytest.mark.parametrize("name", ["chief", "master"])
def test_tf_config_calls_a_master_as_the_version_wants(name: str) -> None:
    config = read_tf_config(build_mixed(worker=1, master=1), "master", tf_master_type=name)
    assert config["task"]["type"] == name
    assert set(config["cluster"]) == {"worker", name}


SPARSE = {"tf_mode": "sparse"}


@pytest.mark.parametrize(
    ("roster", "flags", "message"),
    [
        (build_mixed(chief=2), {}, "takes one chief, and there are 2"),
        (build_mixed(chief=1, evaluator=3), {}, "takes one evaluator, and there are 3"),
        (build_mixed(chief=1, master=1), {}, "takes one chief, and there are 2"),
        (build_mixed(chief=1, master=1), {"tf_master_type": "master"}, "a chief or a master"),
        (build_mixed(chief=2), {"roles": "chief=worker", **SPARSE}, "every work"),
        (
            build_roster(build_role("chief", 1), build_role("ps", 1)),
            {},
            "the same address and port; give them ports of their own: FB_PORTS=worker=2222.index",
        ),
        (
            build_mixed(chief=1, a=1, ps=1),
            {"roles": "a=worker,chief=worker", **SPARSE},
            "chief, a are all worker, so their indexes coincide",
        ),
    ],
)
def test_tf_config_that_tensorflow_would_misread_is_refused(
    roster: Roster, flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedError, match=message):
        render("tf_config", roster, "chief", **flags)


def test_tf_config_of_members_of_one_host_is_rendered_with_ports_by_index() -> None:
    config = read_tf_config(with_address(build_gang(2), "10.0.0.1"), ports="2222+index")
    assert config["cluster"]["worker"] == ["10.0.0.1:2222", "10.0.0.1:2223"]


@pytest.mark.parametrize("name", ["tf_config", "pytorch", "jax"])
@pytest.mark.parametrize("role", ["launcher", "tensorboard"])
def test_role_without_a_part_in_it_is_not_concerned(name: str, role: str) -> None:
    with pytest.raises(NotConcernedError, match=f"{role} is not (in|one of) "):
        render(name, build_mixed(worker=1, **{role: 1}), role)


# --- PyTorch ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("completed", "minimum", "flags", "expected"),
    [
        (0, 4, {}, "4:4"),
        (0, 2, {}, "2:4"),
        (1, 2, {}, "1:4"),
        (0, 4, {"torch_nodes": "2:16"}, "2:16"),
        (3, 1, {}, "1:4"),
    ],
)
def test_elastic_bounds_come_from_the_roster_unless_given(
    completed: int, minimum: int, flags: dict[str, Any], expected: str
) -> None:
    done = tuple(CompletedTask(4 + i, "Succeeded", "") for i in range(completed))
    roster = build_roster(build_role("worker", 4, minimum=minimum, completed=done))
    env = render("pytorch", roster, torch_mode="elastic", **flags).env
    assert env["PET_NNODES"] == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"torch_nodes": "1:2"}, "3 nodes are more than the 2"),
        ({"torch_backend": "etcd"}, "etcd needs an endpoint; set FB_TORCH_ENDPOINT"),
    ],
)
def test_elastic_gang_that_cannot_start_is_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        render("pytorch", build_gang(3), torch_mode="elastic", **flags)


@pytest.mark.parametrize(
    ("flags", "index", "nodes", "endpoint", "host"),
    [
        ({}, 0, "3:3", "10.0.0.2:29400", "is_host=1"),
        ({}, 1, "3:3", "10.0.0.2:29400", "is_host=0"),
        ({"torch_endpoint": "store:1"}, 0, "3:3", "store:1", "read_timeout=60"),
        (
            {"torch_backend": "framework", "torch_nodes": "1:2"},
            1,
            "1:3",
            "10.0.0.2:29400",
            "read_timeout=60",
        ),
    ],
    ids=["host", "other", "store_elsewhere", "framework"],
)
def test_elastic_store_is_served_by_rank_0_or_elsewhere(
    flags: dict[str, Any], index: int, nodes: str, endpoint: str, host: str
) -> None:
    env = render("pytorch", build_gang(3), index=index, torch_mode="elastic", **flags).env
    assert (env["PET_NNODES"], env["PET_RDZV_ENDPOINT"]) == (nodes, endpoint)
    assert env["PET_RDZV_BACKEND"] == flags.get("torch_backend", "c10d")
    assert env["PET_RDZV_CONF"].rpartition(",")[2] == host


def test_run_id_differs_by_attempt() -> None:
    again = build_gang(1)._replace(attempt_id=1, instance_uid="1_aaaa")
    ids = {render("pytorch", roster).env["PET_RDZV_ID"] for roster in (build_gang(1), again)}
    assert len(ids) == 2


def test_ranks_of_processes_are_left_to_torchrun_where_a_pod_has_several() -> None:
    env = render("pytorch", build_gang(2), slots="8").env
    assert env["PET_NPROC_PER_NODE"] == "8"
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & set(env)


# --- Host files -------------------------------------------------------------------------------

HOST_FILES = {
    "horovod": ("hosts.horovod", "{}:{}"),
    "openmpi": ("hosts.openmpi", "{} slots={}"),
    "hydra": ("hosts.hydra", "{}:{}"),
    "deepspeed": ("hosts.deepspeed", "{} slots={}"),
}


@pytest.mark.parametrize("name", HOST_FILES)
def test_host_file_lists_launchers_with_slots_first_then_by_rank(name: str) -> None:
    file_name, line = HOST_FILES[name]

    def list_hosts(roster: Roster, **flags: Any) -> list[str]:
        return get_lines(render(name, roster, **flags), file_name)

    mixed = build_mixed(worker=2, ps=1, master=1, launcher=1)
    assert list_hosts(mixed, slots="2,launcher=1,ps=3") == [
        line.format(f"10.0.0.{host}", slots)
        for host, slots in ((32, 1), (22, 2), (2, 2), (3, 2), (12, 3))
    ]
    assert list_hosts(build_gang(2, IPV6), host_style="name") == [
        line.format(host, 1) for host in ("job-worker-0", "job-worker-1")
    ]


LONG = "w" * 63


@pytest.mark.parametrize("name", HOST_FILES)
def test_host_file_without_hosts_or_with_a_name_too_long_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="no member has slots"):
        render(name, build_mixed(ps=2), "ps")
    with pytest.raises(RefusedError, match="longer than a host name may be"):
        render(name, build_mixed(**{LONG: 1}), LONG, host_style="name", roles=f"{LONG}=worker")


@pytest.mark.parametrize("name", ["horovod", "hydra"])
def test_host_file_of_dual_stack_members_takes_ipv4_where_only_that_is_read(name: str) -> None:
    roster = with_address(build_gang(1), "2001:db8::1", "10.0.0.7")
    assert get_lines(render(name, roster), HOST_FILES[name][0]) == ["10.0.0.7:1"]
    with pytest.raises(RefusedError, match="cannot read the IPv6 address"):
        render(name, roster, ip_family="ipv6")


def test_host_file_of_members_with_one_address_is_refused_where_it_is_read_once() -> None:
    roster = with_address(build_gang(2), "10.0.0.1")
    for name in ("horovod", "deepspeed"):
        with pytest.raises(RefusedError, match="share an address"):
            render(name, roster)
    for name in ("openmpi", "hydra"):
        assert len(get_lines(render(name, roster), HOST_FILES[name][0])) == 2


@pytest.mark.parametrize("name", ["openmpi", "hydra"])
def test_launcher_variables_are_given_to_the_launcher_or_to_rank_0(name: str) -> None:
    assert render(name, build_gang(2), index=0).env
    assert not render(name, build_gang(2), index=1).env
    roster = build_mixed(worker=1, launcher=1)
    assert not render(name, roster, "worker").env
    assert render(name, roster, "launcher").env


# --- peers.json and the rest ------------------------------------------------------------------


LEAVING = (Leaving("worker", 4, "0" * 8, 7, "2026-01-01T00:00:00Z"),)


def check_schema(value: Any, schema: dict[str, Any], path: str = "$") -> None:
    """The part of JSON Schema that peers.schema.json uses; additional fields are an error here."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    assert type(value) is kinds[schema["type"]], path
    if "enum" in schema:
        assert value in schema["enum"], path
    if "minimum" in schema:
        assert value >= schema["minimum"], path
    if isinstance(value, dict):
        assert list(value) == schema["required"] == list(schema["properties"]) or sorted(
            value
        ) == sorted(schema["required"]), path
        for name, item in value.items():
            check_schema(item, schema["properties"][name], f"{path}.{name}")
    if isinstance(value, list):
        for position, item in enumerate(value):
            check_schema(item, schema["items"], f"{path}[{position}]")


@pytest.mark.parametrize(
    "roster",
    [
        build_gang(1),
        build_gang(3, IPV6),
        build_gang(2, "dual"),
        build_roster(
            build_role("ps", 1),
            build_role("worker", 0),
            build_role(
                "chief", [3], absent=(1,), completed=(CompletedTask(0, "Failed", "10.0.0.9"),)
            ),
            leaving=LEAVING,
        ),
    ],
)
def test_peers_json_keeps_its_schema(roster: Roster) -> None:
    rendered = render("peers_json", roster)
    schema = json.loads((ROOT / "docs" / "peers.schema.json").read_text())
    check_schema(json.loads(rendered.files["peers.json"].content), schema)


def test_peers_json_has_index_rank_and_leaving_tasks() -> None:
    roster = build_roster(
        build_role("worker", [0, 2], first=1),
        build_role("ps", 1, first=9),
        leaving=LEAVING,
    )
    document = json.loads(render("peers_json", roster, index=2).files["peers.json"].content)
    assert document["own"] == {"role": "worker", "index": 2, "isMember": True, "rank": 1}
    assert [(m["index"], m["rank"]) for m in document["roles"][0]["members"]] == [(0, 0), (2, 1)]
    assert [m["rank"] for m in document["roles"][1]["members"]] == [-1]
    assert [(task["role"], task["index"]) for task in document["leaving"]] == [("worker", 4)]


def test_fb_variables_of_a_member_that_left_lack_rank_and_address() -> None:
    env = render("fb_variables", build_gang(2), index=5).env
    assert "FB_RANK" not in env
    assert "FB_ADDRESS" not in env
    assert env["FB_WORKER_COUNT"] == "2"


def test_hosts_block_leaves_out_names_that_are_none_and_lists_both_families() -> None:
    roster = build_roster(build_role("worker", 1, family="dual"), build_role("w" * 63, 1))
    assert get_lines(render("etc_hosts", roster), "etc-hosts")[1:-1] == [
        "10.0.0.2\tjob-worker-0 job-worker-0.job",
        "2001:db8::1\tjob-worker-0 job-worker-0.job",
    ]
