"""The barrier as a process, against a scripted API server over real sockets."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.barrier.api_server import (
    ApiServer,
    make_configmap,
    make_framework,
    make_roster,
    make_task,
)
from tests.barrier.conftest import ROOT, Starter
from tests.support.measuring.pace import expect_usually_within

INJECTOR = b"""#!/bin/bash

echo ./injector.sh: Start to inject environment variables

export FB_WORKER_IPS=10.0.0.2,10.0.0.3
echo FB_WORKER_IPS=${FB_WORKER_IPS}

export FB_WORKER_ADDRESSES=10.0.0.2:${FB_WORKER_PORT},10.0.0.3:${FB_WORKER_PORT}
echo FB_WORKER_ADDRESSES=${FB_WORKER_ADDRESSES}

echo ./injector.sh: Succeeded to inject environment variables
"""


def read_termination(tmp_path: Path) -> dict[str, object]:
    fields: dict[str, object] = json.loads((tmp_path / "termination").read_text())
    return fields


def test_barrier_roster_is_there_passes_at_first_look(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    server.add(make_configmap(make_roster()))
    barrier = start()
    assert barrier.wait() == 0
    work = tmp_path / "work"
    assert (work / "injector.sh").read_bytes() == INJECTOR
    assert (work / "injector.sh").stat().st_mode & 0o777 == 0o755
    assert (work / "framework.json").stat().st_mode & 0o777 == 0o644
    expected = {k: v for k, v in make_framework().items() if k not in {"apiVersion", "kind"}}
    assert json.loads((work / "framework.json").read_text()) == expected
    assert sorted(p.name for p in work.iterdir()) == ["framework.json", "injector.sh"]
    assert "passed: 2/2 Tasks, generation 1" in barrier.text
    assert read_termination(tmp_path)["generation"] == 1
    watch, get = server.requests.get_nowait(), server.requests.get_nowait()
    assert "fieldSelector=metadata.name%3Df-attempt" in watch
    assert "resourceVersion=0" in watch
    assert get.endswith("/frameworks/f?resourceVersion=0")
    assert server.requests.empty()


def test_barrier_roster_comes_passes_within_150_ms(server: ApiServer, start: Starter) -> None:
    line = r"1/2 ready after \d+ s; waiting for worker/1 \(Unschedulable: 0/1 no"

    def take() -> float:
        server.new_events()  # each barrier has a watch of its own
        server.add(make_configmap(missing="Unschedulable: 0/1 nodes are available"))
        barrier = start()
        barrier.wait_for_line(line)
        started = time.monotonic()
        server.add(make_configmap(make_roster(), version=2), "MODIFIED")
        assert barrier.wait() == 0
        return time.monotonic() - started

    expect_usually_within(0.15, take)


def test_barrier_old_attempts_roster_keeps_waiting(server: ApiServer, start: Starter) -> None:
    old = make_roster(instance_uid="0_old")
    server.add(make_configmap(old, uid="old"))
    barrier = start()
    barrier.wait_for_line("is of another attempt")
    server.add(make_configmap(old, version=2), "MODIFIED")
    barrier.wait_for_line("attempt 0_old is seen, not 0_cm-uid")
    server.add(make_configmap(make_roster(), version=3), "MODIFIED")
    assert barrier.wait() == 0


def test_barrier_token_expired_reads_it_again(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    server.tokens = {"new-token"}
    server.add(make_configmap(make_roster()))
    barrier = start()
    barrier.wait_for_line("not authenticated")
    (tmp_path / "account" / "token").write_text("new-token")
    assert barrier.wait() == 0
    assert "good-token" not in barrier.text
    assert "new-token" not in barrier.text


def test_barrier_configmaps_forbidden_passes_by_framework(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    server.forbidden = {"configmaps"}
    barrier = start()
    assert barrier.wait() == 0
    assert "--verb=watch --resource=configmaps --resource-name=f-attempt" in barrier.text
    assert (tmp_path / "work" / "injector.sh").read_bytes() == INJECTOR


def test_barrier_all_forbidden_names_both_rules(server: ApiServer, start: Starter) -> None:
    server.forbidden = {"configmaps", "frameworks"}
    barrier = start(BARRIER_CHECK_INTERVAL_SEC="5")
    barrier.wait_for_line("every source is denied")
    assert "--resource=configmaps --resource-name=f-attempt" in barrier.text
    assert "--resource=frameworks.frameworkcontroller.microsoft.com" in barrier.text
    server.forbidden = set()
    assert barrier.wait() == 0


def test_barrier_without_identity_follows_the_originals_rule(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    done = [make_task(i, f"10.0.0.{i + 2}", state="Completed") for i in range(2)]
    server.framework = make_framework(*done)
    barrier = start(
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", "FC_CONFIGMAP_UID", "FC_POD_UID", "FC_TASK_INDEX"
    )
    assert barrier.wait() == 0
    assert "$FC_POD_UID not set" in barrier.text
    assert (tmp_path / "work" / "injector.sh").read_bytes() == INJECTOR


def test_barrier_bad_settings_names_them_all(start: Starter, tmp_path: Path) -> None:
    barrier = start(
        "FC_FRAMEWORK_NAME",
        BARRIER_CHECK_INTERVAL_SEC="4",
        BARRIER_CHECK_TIMEOUT_SEC="an hour",
        BARRIER_FRAMEWORK_JSON="maybe",
    )
    assert barrier.wait() == 210
    for name in ("FRAMEWORK_NAME", "INTERVAL_SEC", "TIMEOUT_SEC", "FRAMEWORK_JSON"):
        assert name in barrier.text
    assert "the controller does not retry" in barrier.text
    assert read_termination(tmp_path)["reason"] == "BadConfig"


def test_barrier_no_api_server_configured_exits_1(start: Starter) -> None:
    barrier = start("KUBE_APISERVER_ADDRESS")
    assert barrier.wait() == 1
    assert "$KUBE_APISERVER_ADDRESS" in barrier.text


def test_barrier_unreachable_keeps_trying_until_sigterm(start: Starter, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        barrier = start(KUBE_APISERVER_ADDRESS=f"http://127.0.0.1:{port}")
        barrier.wait_for_line("is unreachable: .*Connection refused")
        barrier.process.send_signal(signal.SIGTERM)
        assert barrier.wait() == 143
    assert list((tmp_path / "work").iterdir()) == []
    assert read_termination(tmp_path)["reason"] == "SIGTERM"


def test_barrier_working_dir_unwritable_exits_1_before_the_wait(
    start: Starter, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    barrier = start(BARRIER_WORKING_DIR=str(tmp_path / "file" / "work"))
    assert barrier.wait() == 1
    assert f"cannot write into {tmp_path}/file/work" in barrier.text
    assert "mount a writable volume" in barrier.text


def test_barrier_json_log_prints_objects(server: ApiServer, start: Starter) -> None:
    server.add(make_configmap(make_roster()))
    barrier = start(BARRIER_LOG="json")
    assert barrier.wait() == 0
    messages = [json.loads(line)["message"] for line in barrier.lines]
    assert any(message.startswith("passed: 2/2") for message in messages)


def test_barrier_two_in_one_volume_leave_complete_files(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    streams, barriers = [], []
    for index in range(2):
        # A watch of its own for each.
        server.new_events()
        streams.append(server.events)
        server.add(make_configmap(missing="Pending"))
        barriers.append(start(FC_TASK_INDEX=str(index), FC_POD_UID=f"pod-{index}"))
        barriers[-1].wait_for_line("1/2 ready")
    for events in streams:
        events.put({"type": "MODIFIED", "object": make_configmap(make_roster(), version=2)})
    assert [barrier.wait() for barrier in barriers] == [0, 0]
    names = sorted(path.name for path in (tmp_path / "work").iterdir())
    assert names == ["framework.json", "injector.sh"]


def test_barrier_usage_is_printed() -> None:
    command = [sys.executable, "-m", "barrier"]
    usage = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, check=True)
    assert b"BARRIER_CHECK_TIMEOUT_SEC" in usage.stdout
    bad = subprocess.run([*command, "now"], cwd=ROOT, capture_output=True, check=False)
    assert bad.returncode == 2
