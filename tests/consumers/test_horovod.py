"""Horovod's own parsers: discovery script, -H and -hostfile."""

from pathlib import Path

import pytest

from tests.consumers.stacks import COUNTS, FAMILIES, ask, list_addresses, write_volume
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


def test_horovod_before_the_first_generation_is_told_of_the_failure(tmp_path: Path) -> None:
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
