"""From a new generation at the API server to the notified training process.

Run by people::

    python -m benchmarks.notify --runs 30 --members 4

The API server is that of the local cluster. The agent is ``run`` around a process that prints when
it was notified, by each way. The debounce is off, because it comes after the measured part. Beside
the latency, the benchmark reports how many programs wanted a core meanwhile.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measuring import describe_machine
from tests.rendezvous.agents import Publisher
from tests.rendezvous.gangs import build_gang
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import open_local_server

SITE = Path(__file__).parent.parent / "rendezvous"
_PAUSE_SECONDS = 0.3

_SIGNAL = """
import signal, time
print("ready", flush=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
while True:
    signal.sigwait([signal.SIGUSR1])
    print(time.monotonic(), flush=True)
"""
_ON_CHANGE = """
import time, peers
peers.on_change(lambda change: print(time.monotonic(), flush=True))
print("ready", flush=True)
time.sleep(1000)
"""
_COMMAND = """
import os, time
os.mkfifo(os.environ["FIFO"])
print("ready", flush=True)
while True:
    with open(os.environ["FIFO"]) as fifo:
        fifo.read()
    print(time.monotonic(), flush=True)
"""
_LONG_POLL = """
import json, time, urllib.request
after = None
print("ready", flush=True)
while True:
    try:
        url = f"http://127.0.0.1:28981/changes?after={after or 0}&timeout=60"
        with urllib.request.urlopen(url) as answer:
            changes = json.load(answer)
    except OSError:
        time.sleep(0.05)
        continue
    if changes["changes"]:
        print(time.monotonic(), flush=True)
    after = changes["number"]
"""
WAYS = {
    "signal": (_SIGNAL, ["--notify-signal", "USR1"]),
    "command": (_COMMAND, ["--notify-command", ': >"$FIFO"']),
    "long-poll": (_LONG_POLL, ["--listen", "28981"]),
    "on_change": (_ON_CHANGE, []),
}


@contextmanager
def run_notified(
    publisher: Publisher, access: Access, volume: Path, way: str
) -> Iterator[subprocess.Popen[str]]:
    """Run an agent around a process that prints when it was notified."""
    program, flags = WAYS[way]
    env = publisher.build_env(access.url, access.token, volume, "worker", 0)
    env |= {"FB_DEBOUNCE_SEC": "0", "FIFO": str(volume.with_name(volume.name + ".fifo"))}
    env["PYTHONPATH"] += os.pathsep + str(SITE)
    agent = [sys.executable, "-m", "rendezvous", "run", *flags, "--", sys.executable, "-c", program]
    child = subprocess.Popen(
        agent,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.communicate()


def measure(publisher: Publisher, access: Access, volume: Path, options: argparse.Namespace) -> str:
    """Publish repeatedly; describe the time until the process was notified."""
    roster = build_gang(options.members)
    publisher.publish(roster)
    seconds, loads = [], []
    with run_notified(publisher, access, volume, options.way) as child:
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise RuntimeError("the process was not started")
        for number in range(options.runs):
            time.sleep(_PAUSE_SECONDS)
            loads.append(read_waiting_count())
            count = options.members + 1 - number % 2
            started = time.monotonic()
            publisher.publish(build_gang(count)._replace(generation=number + 2))
            seconds.append(float(child.stdout.readline()) - started)
    quantiles = statistics.quantiles(seconds, n=10)
    return (
        f"median {statistics.median(seconds) * 1000:.0f} ms, 90 % {quantiles[-1] * 1000:.0f} ms, "
        f"least {min(seconds) * 1000:.0f} ms; programs that wanted a core: "
        f"{statistics.mean(loads):.1f}"
    )


def read_waiting_count() -> int:
    """Read how many other programs run or wait for a core now."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1


def main() -> None:
    """Measure every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--directory", help="where the volumes are made: the disk matters")
    options = parser.parse_args()
    sys.stdout.write(describe_machine() + "\n")
    with (
        tempfile.TemporaryDirectory(dir=options.directory) as folder,
        open_local_server(Path(folder)) as access,
    ):
        for way in WAYS:
            options.way = way
            publisher = Publisher(access.open_http(), f"job-{way.replace('_', '')}")
            text = measure(publisher, access, Path(folder) / way, options)
            sys.stdout.write(f"{way}: {text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
