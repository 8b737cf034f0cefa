"""Horovod's own parsers (discovery script, -H and -hostfile), and its elastic driver."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.consumers.examples import STACKS, start_example, wait_for_rescale
from tests.consumers.stacks import (
    COUNTS,
    FAMILIES,
    ask,
    list_addresses,
    require_program,
    write_volume,
)
from tests.rendezvous.gangs import IPV6, build_gang

READ_ALL = """
import os
from horovod.runner.elastic.discovery import HostDiscoveryScript
from horovod.runner.common.util.hosts import parse_host_files, parse_hosts
found = HostDiscoveryScript("./discover_hosts.sh", 99).find_available_hosts_and_slots()
listed = [[h.hostname, h.slots] for h in parse_hosts(os.environ["FB_HOROVOD_HOST_LIST"])]
file = [[h.hostname, h.slots] for h in parse_hosts(parse_host_files("current/hosts.horovodrun"))]
answer([found, listed, file])
"""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_horovod_reads_every_host_with_its_slots(count: int, family: str, tmp_path: Path) -> None:
    style = "name" if family == IPV6 else "address"
    rendering = write_volume(tmp_path, build_gang(count, family), slots="4", host_style=style)
    found, listed, file = ask("horovod", READ_ALL, tmp_path, rendering.env)
    hosts = [f"job-worker-{i}" for i in range(count)]
    expected = hosts if family == IPV6 else list_addresses(count, family)
    assert found == dict.fromkeys(expected, 4)
    assert listed == file == [[host, 4] for host in expected]


def test_horovod_cannot_read_ipv6_which_is_why_it_is_refused(tmp_path: Path) -> None:
    rendering = write_volume(tmp_path, build_gang(2, IPV6))
    assert "horovod" in rendering.refusals
    script = """
from horovod.runner.common.util.hosts import parse_hosts
try:
    answer([h.hostname for h in parse_hosts("fd00::1:4")])
except ValueError as e:
    answer("refused")
"""
    assert ask("horovod", script, tmp_path) == "refused"


def test_horovod_before_the_first_generation_sees_a_failed_script(tmp_path: Path) -> None:
    write_volume(tmp_path, build_gang(1))
    (tmp_path / "current" / "hosts.horovod").unlink()
    script = """
from horovod.runner.elastic.discovery import HostDiscoveryScript
try:
    answer(HostDiscoveryScript("./discover_hosts.sh", 1).find_available_hosts_and_slots())
except RuntimeError:
    answer("failed")
"""
    assert ask("horovod", script, tmp_path) == "failed"


def test_horovod_continues_in_worlds_of_two_three_and_two(tmp_path: Path) -> None:
    def change(text: str) -> str:
        loop = "        while state.step < STEPS:\n"
        assert loop in text
        text = text.replace(loop, f"        first = state.step\n{loop}")
        text = wait_for_rescale(
            text, "SECONDS", step="state.step", size="hvd.size()", first="first"
        )
        # Peers wait 30 s for one another by default; a busy machine starts them minutes apart.
        run = "exec horovodrun --gloo "
        assert run in text
        text = text.replace(run, f"{run}--gloo-timeout-seconds 240 --start-timeout 240 ")
        command = ["sh", str(STACKS / "ssh-secret.sh"), "horovod-ssh"]
        secret = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return f"{text}---\n{secret}"

    require_program("sshd", "sshd")
    with start_example("horovod-elastic.yaml", "horovod-gloo", tmp_path, change) as example:
        example.wait_for_log("launcher/0", r"world 2 step \d+: ")
        example.scale("worker", 3)
        example.wait_for_log("launcher/0", r"world 3 step \d+: ")
        example.scale("worker", 2)
        example.wait_for_log("launcher/0", r"world 3 .*\n(.*\n)*.*world 2 step \d+: ")
        assert example.finish() == 0, example.explain("it failed")
    log = example.read_log("launcher/0")
    steps = [(int(w), int(s)) for w, s in re.findall(r"<stdout>:world (\d+) step (\d+): ", log)]
    worlds = list(dict.fromkeys(world for world, _ in steps))
    assert worlds == [2, 3], example.explain("other worlds")
    assert steps[-1] == (2, 300), example.explain("another end")
    # Every process continues from the step of its peers; only the first two start at zero.
    starts = re.findall(r"world (\d+) rank \d+: from step (\d+)$", log, re.MULTILINE)
    first = [start for start in starts if start[1] == "0"]
    assert first == [("2", "0"), ("2", "0")], example.explain("other starts")
    assert {world for world, step in starts if step != "0"} == {"2", "3"}
    assert len(re.findall(r"done in world 2, off by 0\.0", log)) == 2
