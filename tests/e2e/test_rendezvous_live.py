"""Processes that read without a pause while their gang is rescaled: whole files, each once."""

import json
from pathlib import Path
from typing import Any

import pytest

from framework.kube.resources import PODS, Object
from tests.e2e.steps import scale, wait_until_deleted, wait_until_succeeded, wrap_command
from tests.support.servers.gang import GangCluster, build_gang, build_role
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.local

CALLS = 1000
POLL_SECONDS = 0.05
SURVIVORS = ("0", "1", "2")
# One program in every Pod. It writes down each change that it is notified of, and between calls of
# discover_hosts.sh it reads all files of the generation in force. Worker 0 calls without a pause.
OBSERVER = """
import json, os, subprocess, time
import peers

VOLUME, CALLS = "/mnt/frameworkbarrier", int(os.environ["CALLS"])
IS_BUSY = os.environ["FC_TASK_INDEX"] == "0"
seen = open("/gate/seen-" + os.environ["FC_POD_NAME"], "a", buffering=1)

def write(kind, **facts):
    seen.write(json.dumps({"kind": kind, **facts}) + "\\n")

def note_change(change):
    write("notified", generation=change.roster.generation, size=change.roster.size,
          changed=[len(change.added), len(change.removed), len(change.moved)])

def call():
    ran = subprocess.run(["sh", VOLUME + "/discover_hosts.sh"], capture_output=True, text=True)
    if ran.returncode or ran.stderr or not ran.stdout.endswith("\\n"):
        write("fault", what="discover_hosts.sh", answer=repr(ran))
    return ran.stdout.splitlines()

def read_all():
    directory = os.path.realpath(VOLUME + "/current")
    try:
        texts = {name: open(directory + "/" + name).read()
                 for name in os.listdir(directory) if name != ".agent.json"}
    except FileNotFoundError:
        return  # two generations on, it may be gone
    for name, text in texts.items():
        if not text.endswith("\\n"):
            write("fault", what=name, answer=text[-80:])
    size = len(json.loads(texts["peers.json"])["roles"][0]["members"])
    for name in ("hosts.openmpi", "hosts.hydra", "hosts.horovod"):
        if len(texts[name].splitlines()) != size:
            write("fault", what=name, answer=texts[name])

start = peers.wait()
write("notified", generation=start.generation, size=start.size, changed=[start.size, 0, 0])
peers.on_change(note_change, since=start)
calls, last = 0, None
# All end with worker 0: a Task that succeeds earlier would be one more change for the others.
while not os.path.exists("/gate/finish" if IS_BUSY else "/gate/end") or (IS_BUSY and calls < CALLS):
    hosts = call()
    calls += 1
    if hosts != last:
        write("hosts", hosts=hosts)
        last = hosts
    if calls % 10 == 0 or not IS_BUSY:
        read_all()
    if not IS_BUSY:
        time.sleep(0.1)
write("end", calls=calls)
if IS_BUSY:
    open("/gate/end", "w").close()
"""


def build_observed_role(count: int) -> Object:
    role = build_role("worker", count, has_barrier=False)
    role["drain"] = {"timeoutSec": 60}
    (main,) = role["task"]["pod"]["spec"]["containers"]
    main["command"] = ["python3", "-c", OBSERVER]
    env = {"FB_DEBOUNCE_SEC": "0.3", "CALLS": str(CALLS)}
    main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    wrap_command(role)
    return role


def read_seen(tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.name.removeprefix("seen-gang-worker-"): [
            json.loads(line) for line in path.read_text().splitlines(keepends=True) if "\n" in line
        ]
        for path in sorted((tmp_path / "gate").glob("seen-*"))
    }


def pick(facts: list[dict[str, Any]], kind: str, name: str) -> list[Any]:
    return [fact[name] for fact in facts if fact["kind"] == kind]


async def wait_until_notified(tmp_path: Path, size: int) -> None:
    """Wait until all of a gang of this size have been told of it: they write it down."""

    def is_notified() -> bool:
        seen = read_seen(tmp_path)
        notified = [
            pick(seen.get(str(index), []), "notified", "size")[-1:] for index in range(size)
        ]
        return notified == [[size]] * size

    await wait_until_async(is_notified, lambda: str(read_seen(tmp_path)), POLL_SECONDS)


@pytest.mark.slow
async def test_processes_see_every_generation_once_and_whole_lists_only(
    world: GangCluster, tmp_path: Path
) -> None:
    await world.create(build_gang(build_observed_role(4)))
    await wait_until_notified(tmp_path, 4)
    await scale(world, 6)
    await wait_until_notified(tmp_path, 6)
    await scale(world, 3)
    for leaver in (3, 4, 5):
        await wait_until_deleted(world, f"gang-worker-{leaver}")
    (tmp_path / "gate" / "finish").touch()
    await wait_until_succeeded(world)

    seen = read_seen(tmp_path)
    assert len(seen) == 6
    for index, facts in seen.items():
        assert not [fact for fact in facts if fact["kind"] == "fault"], index
        generations = pick(facts, "notified", "generation")
        assert generations == sorted(set(generations)), (index, generations)
        # The changes add up: no generation is left out between two notifications.
        sizes = pick(facts, "notified", "size")
        changed = pick(facts, "notified", "changed")
        for before, after, (added, removed, _) in zip(sizes, sizes[1:], changed[1:], strict=False):
            assert after == before + added - removed, (index, facts)
        expected = [6, 3] if index in {"4", "5"} else [4, 6, 3]
        # Every size once, whole lists, and never back to an older one; who leaves may be gone
        # before it has looked once more.
        notified = [
            size for size, before in zip(sizes, [0, *sizes], strict=False) if size != before
        ]
        called = [len(hosts) for hosts in pick(facts, "hosts", "hosts")]
        for seen_sizes in (notified, called):
            assert seen_sizes == expected[: len(seen_sizes)], (index, facts)
            assert len(seen_sizes) >= (3 if index in SURVIVORS else 1), (index, facts)
        for hosts in pick(facts, "hosts", "hosts"):
            assert len(set(hosts)) == len(hosts)
            assert all(host.endswith(":1") for host in hosts)
    (calls,) = pick(seen["0"], "end", "calls")
    assert calls >= CALLS
    names = {f"gang-worker-{index}" for index in SURVIVORS}
    pods = [c for c in world.changes if c.resource is PODS and c.name in names]
    assert "Failed" not in {pod.status.get("phase") for pod in pods}
