"""Reads measurements of the machine, of processes and of an API server.

Linux only: processes are read in /proc.
"""

import os
import platform
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from framework.kube.client import KubeClient

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? ([0-9.e+-]+|NaN)$")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
_REQUESTS = "apiserver_request_total"
_SERVER_CPU = "process_cpu_seconds_total"
# The resources that a controller of Frameworks uses; the servers themselves request others.
_RESOURCES = frozenset({"configmaps", "events", "frameworks", "leases", "pods", "secrets"})


@dataclass(frozen=True)
class ServerCounters:
    """The counters of an API server since its start."""

    requests: Counter[tuple[str, str, str]]
    """By resource with subresource, verb, HTTP status."""
    cpu_seconds: float

    def since(self, before: "ServerCounters") -> "ServerCounters":
        """Subtract an earlier reading."""
        return ServerCounters(
            self.requests - before.requests, self.cpu_seconds - before.cpu_seconds
        )


@dataclass(frozen=True)
class MachineTimes:
    """CPU seconds of the machine, and the part of this benchmark."""

    busy_seconds: float
    own_seconds: float


async def read_server(client: KubeClient) -> ServerCounters:
    """Read an API server's own counters."""
    text = (await client.get_raw("/metrics")).decode()
    requests: Counter[tuple[str, str, str]] = Counter()
    cpu_seconds = 0.0
    for line in text.splitlines():
        if line.startswith(_SERVER_CPU):
            cpu_seconds = float(line.rpartition(" ")[2])
        if not line.startswith(_REQUESTS):
            continue
        matched = _SAMPLE.match(line)
        if matched is None:
            continue
        labels = dict(_LABEL.findall(matched[2]))
        if labels["resource"] in _RESOURCES:
            resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
            key = (resource, labels["verb"], labels["code"])
            requests[key] += int(float(matched[3]))
    return ServerCounters(requests, cpu_seconds)


async def read_metric(client: KubeClient, name: str, wanted: dict[str, str]) -> float:
    """Sum the samples of a metric that have all wanted labels."""
    text = (await client.get_raw("/metrics")).decode()
    matches = (_SAMPLE.match(line) for line in text.splitlines() if line.startswith(name))
    return sum(
        float(matched[3])
        for matched in matches
        if matched is not None and wanted.items() <= dict(_LABEL.findall(matched[2] or "")).items()
    )


def read_cpu_seconds(pid: int) -> float:
    """Read the CPU seconds of one process, user and system."""
    return _read_stat(pid)[1]


def read_peak_rss_mib(pid: int) -> float:
    """Read the maximum of the resident set of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def read_machine() -> MachineTimes:
    """Read the CPU time of the machine, and that of this process and its descendants."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq = map(int, first[1:8])
    busy = (user + nice + system + irq + softirq) / _TICKS
    return MachineTimes(busy, sum(_read_tree().values()))


def describe_machine() -> str:
    """Describe the machine in one line, for the head of a report."""
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} x {model}, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load {load:.1f}"
    )


def _read_tree() -> dict[int, float]:
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stats[int(folder.name)] = _read_stat(int(folder.name))
            except (OSError, ValueError):
                continue
    tree = {os.getpid(): stats[os.getpid()][1]}
    # Children have greater ids than their parents, except after ids wrapped around.
    for pid, (parent, cpu) in sorted(stats.items()):
        if parent in tree:
            tree[pid] = cpu
    return tree


def _read_stat(pid: int) -> tuple[int, float]:
    """Read (parent, CPU seconds); the seconds of ended children count for their parent."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()
    own = int(fields[11]) + int(fields[12])
    return int(fields[1]), own / _TICKS
