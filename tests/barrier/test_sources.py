"""The barrier as a process, by each source: the Framework under another controller, DNS, levels."""

import base64
import gzip
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.barrier.api_server import (
    COMPRESSED_BYTES,
    ApiServer,
    make_configmap,
    make_framework,
    make_member,
    make_role,
    make_roster,
    make_task,
)
from tests.barrier.conftest import Starter
from tests.barrier.dns_server import build_prefix, run_dns_server
from tests.barrier.fast import IDENTITY, build_env, run_barrier
from tests.support.waiting import HANG_SECONDS


def list_requests(server: ApiServer) -> list[str]:
    found = []
    while not server.requests.empty():
        found.append(server.requests.get_nowait())
    return found


def make_waiting() -> dict[str, Any]:
    return make_framework(make_task(0, "10.0.0.2"), make_task(1, ""))


def test_framework_changed_wakes_the_barrier(server: ApiServer, start: Starter) -> None:
    server.framework = make_waiting()
    server.add(make_configmap(carries_roster=False))
    # By looks alone, it would not see the change before the test gives up.
    barrier = start(BARRIER_CHECK_INTERVAL_SEC="7200")
    barrier.wait_for_line("1/2 ready")
    # The watch of the metadata is open when the server was asked for it.
    requests = [server.requests.get(timeout=HANG_SECONDS) for _ in range(3)]
    assert "/frameworks?watch=true&fieldSelector=metadata.name%3Df" in requests[2]
    server.framework = make_framework()
    assert barrier.wait() == 0
    (request,) = list_requests(server)
    assert request.endswith("/frameworks/f?resourceVersion=9")


def test_framework_watch_forbidden_is_read_now_and_then(server: ApiServer, start: Starter) -> None:
    server.framework = make_waiting()
    server.forbidden = {"configmaps"}
    server.forbidden_watches = {"frameworks"}
    barrier = start(BARRIER_CHECK_INTERVAL_SEC="5")
    barrier.wait_for_line("--verb=watch --resource=frameworks.*read every few seconds instead")
    server.framework = make_framework()
    assert barrier.wait() == 0


def test_framework_large_and_compressed_comes_as_gzip(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    tasks = [make_task(i, f"10.1.{i // 250}.{i % 250}") for i in range(1000)]
    framework = make_framework(*tasks)
    attempt = framework["status"]["attemptStatus"]
    blob = gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())
    attempt["taskRoleStatusesCompressed"] = base64.b64encode(blob).decode()
    attempt["taskRoleStatuses"] = None
    framework["metadata"]["annotations"] = {"padding": "x" * COMPRESSED_BYTES}
    server.framework = framework
    server.forbidden = {"configmaps"}
    barrier = start()
    assert barrier.wait() == 0
    written = json.loads((tmp_path / "work" / "framework.json").read_text())
    assert len(written["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]) == 1000
    assert server.gzip_answers == 1


def test_configmap_that_gets_its_mark_later_is_believed(server: ApiServer, start: Starter) -> None:
    """Our controller takes an attempt over from another: the watch went on meanwhile."""
    server.framework = make_waiting()
    server.add(make_configmap(carries_roster=False))
    barrier = start()
    barrier.wait_for_line("1/2 ready")
    server.framework = make_framework()
    server.framework = make_waiting()
    server.add(make_configmap(make_roster(generation=4), version=2), "MODIFIED")
    server.framework = make_framework()
    assert barrier.wait() == 0


@pytest.mark.parametrize("mode", ["auto", "on"])
def test_dns_alone_without_a_token(start: Starter, tmp_path: Path, mode: str) -> None:
    with run_dns_server() as dns:
        dns.records = {"f-ps-0.f": ["10.0.0.9"], "f-worker-1.f": ["fd00::3", "10.0.0.3"]}
        barrier = start(
            "KUBE_APISERVER_ADDRESS",
            prefix=build_prefix(tmp_path),
            FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR=str(tmp_path / "none"),
            KUBERNETES_SERVICE_HOST="127.0.0.1",
            KUBERNETES_SERVICE_PORT="1",
            BARRIER_EXPECT="ps=1,worker=2",
            BARRIER_FRAMEWORK_JSON=mode,
        )
        barrier.wait_for_line(r"2/3 ready .* worker/0 \(DNS has no address of f-worker-0.f\)")
        dns.records["f-worker-0.f"] = ["10.0.0.2"]
        code = barrier.wait()
    assert "DNS is the only source" in barrier.text
    assert "it knows no attempts" in barrier.text
    work = tmp_path / "work"
    if mode == "on":
        assert code == 210
        assert list(work.iterdir()) == []
        return
    assert code == 0
    assert sorted(p.name for p in work.iterdir()) == ["injector.sh"]
    text = (work / "injector.sh").read_text()
    assert "export FB_PS_IPS=10.0.0.9\n" in text
    assert "export FB_WORKER_IPS=10.0.0.2,10.0.0.3\n" in text


def test_dns_where_every_right_is_missing(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    server.forbidden = {"configmaps", "frameworks"}
    with run_dns_server() as dns:
        prefix = build_prefix(tmp_path)
        pattern = "{role}-{index}.gang"
        dns.records = {"worker-0.gang": ["10.0.0.2"], "worker-1.gang": ["10.0.0.3"]}
        barrier = start(prefix=prefix, BARRIER_EXPECT="worker=2", BARRIER_DNS_NAME=pattern)
        assert barrier.wait() == 0
    assert "missing right: get frameworks" in barrier.text
    assert "DNS is used instead" in barrier.text


def test_expect_is_not_used_while_the_api_server_answers(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    server.add(make_configmap(make_roster()))
    barrier = start(BARRIER_EXPECT="worker=2")
    assert barrier.wait() == 0
    assert "DNS" not in barrier.text


def make_gang(port: int) -> Any:
    ps = make_role("ps", make_member(0, "127.0.0.1"))
    return make_configmap(make_roster(roles=(ps, make_roster().roles[0])), version=port)


def test_require_tcp_waits_for_the_open_port(server: ApiServer, start: Starter) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server.add(make_gang(port))
        barrier = start(BARRIER_REQUIRE=f"ps=tcp:{port}", BARRIER_FRAMEWORK_JSON="off")
        barrier.wait_for_line(rf"3/3 ready .* not reached yet: ps/0 \(127.0.0.1:{port}\)")
        listener.listen()
        assert barrier.wait() == 0


def test_require_running_waits_for_the_flag(server: ApiServer, start: Starter) -> None:
    ps = make_role("ps", make_member(0, "10.0.0.9"))
    gang = make_roster(roles=(ps, make_roster().roles[0]))
    server.add(make_configmap(gang))
    barrier = start(BARRIER_REQUIRE="ps=running", BARRIER_FRAMEWORK_JSON="off")
    barrier.wait_for_line("3/3 ready .* ps is not running yet")
    roles = (ps._replace(running=True), gang.roles[1])
    server.add(make_configmap(gang._replace(roles=roles, generation=2), version=2), "MODIFIED")
    assert barrier.wait() == 0


def test_require_mutual_is_found_in_the_framework(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    framework = make_framework()
    worker = framework["spec"]["taskRoles"][0]
    env = [{"name": "BARRIER_REQUIRE", "value": "worker=tcp:1"}]
    pod = {"spec": {"initContainers": [{"name": "barrier", "env": env}], "containers": []}}
    ps = {**worker, "name": "ps", "taskNumber": 1, "task": {**worker["task"], "pod": pod}}
    framework["spec"]["taskRoles"].append(ps)
    server.framework = framework
    server.add(make_configmap(missing="Pending"))
    settings = build_env(server.address, tmp_path, **IDENTITY, BARRIER_REQUIRE="ps=running")
    code, _ = run_barrier(settings)
    assert code == 210
    assert "worker waits for ps=running; ps waits for worker=tcp:1" in capsys.readouterr().err


def test_require_circle_cannot_be_checked_says_so(server: ApiServer, start: Starter) -> None:
    server.forbidden = {"frameworks"}
    server.add(make_configmap(missing="Pending"))
    barrier = start(BARRIER_REQUIRE="ps=running")
    barrier.wait_for_line("whether other roles wait for this one cannot be checked")


def test_gang_of_10000_passes_and_names_its_list_files(
    server: ApiServer, start: Starter, tmp_path: Path
) -> None:
    members = tuple(make_member(i, f"10.{100 + i // 250}.0.{i % 250}") for i in range(10_000))
    server.add(make_configmap(make_roster(roles=(make_role("worker", *members),))))
    barrier = start(BARRIER_WORKING_DIR=str(tmp_path / "work") + "/")
    assert barrier.wait() == 0
    assert "framework.json is not written for more than 100 Tasks" in barrier.text
    assert "FB_WORKER_IPS is too long to export" in barrier.text
    work = tmp_path / "work"
    assert sorted(p.name for p in work.iterdir()) == ["FB_WORKER_IPS", "injector.sh"]
    assert (work / "FB_WORKER_IPS").stat().st_mode & 0o777 == 0o444
    assert (work / "FB_WORKER_IPS").read_text().count(",") == 9_999
    assert f"'{work}/FB_WORKER_IPS'" in (work / "injector.sh").read_text()
