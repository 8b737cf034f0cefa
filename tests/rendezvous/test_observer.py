"""Where there is no roster to read: the Framework or DNS instead, faults in words."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from tests.barrier.api_server import (
    CONFIGMAP_UID,
    INSTANCE_UID,
    ApiServer,
    make_configmap,
    make_framework,
    make_roster,
    make_task,
    run_api_server,
)
from tests.barrier.dns_server import build_prefix, run_dns_server
from tests.rendezvous.agents import build_command_with_moved_clock, read_changes, run_agent
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import wait_until


def build_env(server: ApiServer, volume: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "KUBE_APISERVER_ADDRESS": server.address,
        "BARRIER_WORKING_DIR": str(volume),
        "FB_DEBOUNCE_SEC": "0",
        "FB_NOTIFY_COMMAND": f"cat >>{volume}-notified",
        constants.FRAMEWORK_NAMESPACE: "default",
        constants.FRAMEWORK_NAME: "f",
        constants.CONFIGMAP_NAME: "f-attempt",
        constants.CONFIGMAP_UID: CONFIGMAP_UID,
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: INSTANCE_UID,
        constants.TASKROLE_NAME: "worker",
        constants.TASK_INDEX: "0",
        constants.POD_NAME: "",
        constants.POD_UID: "pod-0",
        **more,
    }


def make_gang(count: int) -> dict[str, Any]:
    return make_framework(*(make_task(i, f"10.0.0.{i + 2}") for i in range(count)))


@pytest.mark.parametrize("why", ["forbidden", "of the Go original"])
def test_gang_without_a_roster_is_read_from_the_framework(why: str, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    notified = Path(f"{volume}-notified")
    with run_api_server() as server:
        server.framework = make_gang(2)
        if why == "forbidden":
            server.forbidden.add("configmaps")
        else:
            server.add(make_configmap(carries_roster=False))
        with run_agent(build_env(server, volume), "watch", "--sidecar-end=native") as agent:
            agent.wait_for("generation 1 is current: 2 members")
            server.framework = make_gang(3)
            wait_until(lambda: len(read_changes(notified)) == 2)
            if why == "forbidden":
                agent.wait_for("missing right: watch configmaps 'f-attempt'")
    changes = read_changes(notified)
    assert [(c["previousGeneration"], c["generation"]) for c in changes] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("why", ["forbidden", "of the Go original"])
@pytest.mark.parametrize("form", ["field", "annotation"])
def test_restart_in_place_without_a_published_roster_is_said_to_have_no_effect(
    why: str, form: str, tmp_path: Path
) -> None:
    with run_api_server() as server:
        server.framework = make_gang(1)
        role = server.framework["spec"]["taskRoles"][0]
        if form == "field":
            role["recovery"] = {"inPlace": {"maxRestarts": 3, "withinSeconds": 60}}
        else:
            text = "maxRestarts=3,withinSeconds=60"
            annotations = {constants.IN_PLACE_ANNOTATION: text}
            role["task"] = {"pod": {"metadata": {"annotations": annotations}}}
        if why == "forbidden":
            server.forbidden.add("configmaps")
        else:
            server.add(make_configmap(carries_roster=False))
        with run_agent(build_env(server, tmp_path / "volume"), "run", "--", "false") as agent:
            agent.wait_for("recovery.inPlace has no effect: a process that fails or hangs ends")
            assert agent.wait() == 1, "the code of the command"


def test_published_roster_after_the_framework_counts_up(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    with run_api_server() as server:
        server.framework = make_gang(2)
        server.add(make_configmap(carries_roster=False))
        with run_agent(build_env(server, volume), "watch", "--sidecar-end=native") as agent:
            agent.wait_for("generation 1 is current: 2 members")
            # Our controller takes the attempt over.
            published = make_roster(generation=1)
            role = published.roles[0]
            one = published._replace(
                roles=(role._replace(members=role.members[:1], wanted=1, minimum=1),)
            )
            server.add(make_configmap(one, version=2), "MODIFIED")
            agent.wait_for("generation 2 is current: 1 members")


def test_render_without_any_right_names_the_rules(tmp_path: Path) -> None:
    with run_api_server() as server:
        server.forbidden |= {"configmaps", "frameworks"}
        server.confirms_denials = False  # else it would end before its time is over
        env = build_env(server, tmp_path / "volume", FB_TIMEOUT_SEC="60")
        is_over = tmp_path / "the-time-is-over"
        command = build_command_with_moved_clock(is_over, seconds=60)
        with run_agent(env, "render", command=command) as agent:
            agent.wait_for("missing right: watch configmaps 'f-attempt'")
            agent.wait_for("missing right: get frameworks.frameworkcontroller.microsoft.com 'f'")
            is_over.touch()
            assert agent.wait() == 1


def run_render(
    server: ApiServer, volume: Path, expected: str, *prefix: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*prefix, sys.executable, "-m", "rendezvous", "render"],
        env=build_env(server, volume, BARRIER_EXPECT=expected),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_render_by_dns_where_every_right_is_missing(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    with run_api_server() as server, run_dns_server() as dns:
        server.forbidden = {"configmaps", "frameworks"}
        dns.records = {"f-worker-0.f": ["10.0.0.2"], "f-worker-1.f": ["10.0.0.3"]}
        done = run_render(server, volume, "worker=2", *build_prefix(tmp_path))
    assert done.returncode == 0, done.stderr
    peers = json.loads((volume / "current" / "peers.json").read_text())
    assert "10.0.0.3" in json.dumps(peers)
    assert peers["own"]["isMember"]


def test_render_with_a_bad_size_ends_with_210(tmp_path: Path) -> None:
    with run_api_server() as server:
        done = run_render(server, tmp_path / "volume", "worker")
    assert done.returncode == 210
    assert "$BARRIER_EXPECT" in done.stderr
