"""A Pod reaches addresses outside of its network; a network namespace of the test is the world."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give addresses to a namespace")
def test_pod_reaches_usual_ports_of_the_world_by_name_and_others_are_refused(
    tmp_path: Path,
) -> None:
    world = subprocess.run(
        [sys.executable, "-m", "tests.localcluster.network.outside", str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        cwd=ROOT,
        timeout=HANG_SECONDS,
    )
    assert world.stdout.splitlines() == [
        "the world",
        # No server listens there: the connection that was accepted on the way is reset.
        "8081 ConnectionResetError",
        "4711 ConnectionRefusedError",
        "8080 ConnectionRefusedError",
    ], world.stderr
