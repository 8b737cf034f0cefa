"""The agent where the API server denies everything, and DNS knows the gang."""

import json
import subprocess
import sys
from pathlib import Path

from tests.barrier.api_server import run_api_server
from tests.barrier.dns_server import build_prefix, run_dns_server
from tests.rendezvous.test_observer import build_env
from tests.support.servers.frameworkcrd import ROOT


def test_render_by_dns_where_every_right_is_missing(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    with run_api_server() as server, run_dns_server() as dns:
        server.forbidden = {"configmaps", "frameworks"}
        dns.records = {"f-worker-0.f": ["10.0.0.2"], "f-worker-1.f": ["10.0.0.3"]}
        done = subprocess.run(
            [*build_prefix(tmp_path), sys.executable, "-m", "rendezvous", "render"],
            env=build_env(server, volume, BARRIER_EXPECT="worker=2"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    peers = json.loads((volume / "current" / "peers.json").read_text())
    assert "10.0.0.3" in json.dumps(peers)
    assert peers["own"]["isMember"]


def test_render_with_a_bad_size_ends_with_210(tmp_path: Path) -> None:
    with run_api_server() as server:
        done = subprocess.run(
            [sys.executable, "-m", "rendezvous", "render"],
            env=build_env(server, tmp_path / "volume", BARRIER_EXPECT="worker"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 210
    assert "$BARRIER_EXPECT" in done.stderr
