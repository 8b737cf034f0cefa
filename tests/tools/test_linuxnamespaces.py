"""Nothing of a node's own namespaces is left, however its harness ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine.linuxnamespaces import find_cgroups, run_inside
from tests.support.machine.prerequisites import MissingPrerequisiteError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.local

CGROUP = f"frameworkbarrier-test-{os.getpid()}"
SLEEP = f"sleep 654321.{os.getpid()}"
# A node may leave behind a process, mounts, a network device, cgroups and files.
LEAVE = """\
set -e
mkdir "$TMPDIR/kept" && mount -t tmpfs left "$TMPDIR/kept"
ip link add left0 type bridge
echo x >/run/left-by-test && echo x >/etc/left-by-test && mkdir -p /var/lib/left-by-test
for top in /sys/fs/cgroup/*/CGROUP /sys/fs/cgroup/CGROUP; do
    if [ -d "$top" ]; then mkdir "$top/kubepods"; fi
done
setsid SLEEP &
touch "$TMPDIR/ready"
wait
""".replace("CGROUP", CGROUP).replace("SLEEP", SLEEP)
HARNESS = (
    "import sys; from pathlib import Path; "
    "from tests.support.machine.linuxnamespaces import run_inside; "
    "sys.exit(run_inside(sys.argv[3:], Path(sys.argv[1]), sys.argv[2]))"
)


@pytest.fixture(autouse=True)
def _able(tmp_path: Path) -> None:
    try:
        assert run_inside(["true"], tmp_path / "probe", f"{CGROUP}-probe") == 0
    except MissingPrerequisiteError as e:
        pytest.skip(str(e))


def is_anything_running() -> bool:
    done = subprocess.run(["pgrep", "-f", f"{re.escape(SLEEP)}$"], capture_output=True, check=False)
    return done.returncode == 0


def list_leftovers() -> list[str]:
    files = ("/run/left-by-test", "/etc/left-by-test", "/var/lib/left-by-test")
    found = [name for name in files if Path(name).exists()]
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if "left " in line]
    found += [name for name in ("left0",) if Path(f"/sys/class/net/{name}").exists()]
    return found


def test_run_inside_after_a_killed_harness_removes_what_it_left(tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path), CGROUP, "sh", "-c", LEAVE]
    )
    wait_until((tmp_path / "space" / "tmp" / "ready").exists)
    wait_until(is_anything_running)
    with pytest.raises(MissingPrerequisiteError, match="runs already"):
        run_inside(["true"], tmp_path, CGROUP)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    wait_until(lambda: not is_anything_running())
    assert list_leftovers() == []
    assert find_cgroups(CGROUP), "the test leaves nothing to remove"
    assert run_inside(["true"], tmp_path, CGROUP) == 0
    assert find_cgroups(CGROUP) == []
    assert not (tmp_path / "space").exists()


def test_run_inside_returns_the_exit_code_and_removes_the_files(tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo x >"$TMPDIR/file" && echo x >/run/left-by-test && exit 7']
    assert run_inside(command, tmp_path, CGROUP) == 7
    assert list_leftovers() == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "probe"] == ["space.lock"]
