"""Faults of the network, the API server, the volume and the barrier itself, over real sockets.

By a faster clock where a fault lasts for long. Rows of the fault matrix are named in brackets.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.barrier.api_server import ApiServer, make_configmap, make_framework, make_roster
from tests.barrier.conftest import ROOT, Starter
from tests.barrier.dns_server import build_mount_prefix
from tests.barrier.fast import IDENTITY, build_env, run_after, run_barrier
from tests.support.fakes.proxy import run_proxy


def build_long_env(address: str, tmp_path: Path, **more: str) -> dict[str, str]:
    times = {"BARRIER_CHECK_INTERVAL_SEC": "5", "BARRIER_CHECK_TIMEOUT_SEC": "300"}
    return build_env(address, tmp_path, **IDENTITY, **times, **more)


def test_watch_becomes_a_black_hole_is_noticed_within_90_seconds(
    server: ApiServer, tmp_path: Path
) -> None:
    """No FIN, no bytes: the next watch has the roster that is published then."""
    server.add(make_configmap(missing="Pending"))
    with run_proxy(server.address) as proxy:

        def publish() -> None:
            # Watches that begin from now on have their own events.
            server.new_events()
            server.add(make_configmap(make_roster(), version=2))

        run_after(10.0, proxy.stall, publish)
        code, seconds = run_barrier(
            build_long_env(proxy.address, tmp_path, BARRIER_FRAMEWORK_JSON="off")
        )
    assert code == 0
    assert seconds <= 10.0 + 90.0 + 40.0, "90 s of silence, and time to connect"


def test_server_that_accepts_and_never_answers_is_left_after_10_seconds(
    server: ApiServer, tmp_path: Path
) -> None:
    """A black hole at the start."""
    server.add(make_configmap(make_roster()))
    with run_proxy(server.address) as proxy:
        proxy.is_deaf = True

        def listen() -> None:
            proxy.is_deaf = False

        run_after(15.0, listen)
        code, seconds = run_barrier(build_long_env(proxy.address, tmp_path))
    assert code == 0
    assert seconds <= 15.0 + 10.0 + 40.0, "10 s for an answer, and time to try again"


def test_framework_404_burst_does_not_end_the_job(server: ApiServer, tmp_path: Path) -> None:
    """The CRD is established again: 15 s of 404 for the object and for its watch."""
    server.forbidden = {"configmaps"}
    server.framework = None

    def establish() -> None:
        server.framework = make_framework()

    run_after(15.0, establish)
    code, _ = run_barrier(build_long_env(server.address, tmp_path))
    assert code == 0
    assert server.framework is not None


def test_stale_attempt_of_both_sources_keeps_waiting(server: ApiServer, tmp_path: Path) -> None:
    """A cache that lags shows the attempt before, under the same names."""
    old = make_framework()
    old["status"]["attemptStatus"]["instanceUID"] = "0_old"
    server.framework = old
    server.add(make_configmap(make_roster(instance_uid="0_old"), uid="old"))

    def catch_up() -> None:
        server.framework = make_framework()
        server.add(make_configmap(make_roster(), version=9), "MODIFIED")

    run_after(40.0, catch_up)
    code, _ = run_barrier(build_long_env(server.address, tmp_path))
    assert code == 0
    assert server.framework is not old, "the old roster was complete, and did not count"


# The operations of a barrier on the volume, in this order, for each of its two files.
CALLS = ("open", "write", "fchmod", "close", "rename")
KILLER = (
    f"CALLS = {CALLS}"
    """
import os, signal, sys
left = int(sys.argv[1])
is_after = sys.argv[2] == "after"
number = signal.Signals[sys.argv[3]]
def wrap(name):
    real = getattr(os, name)
    def call(*args, **kwargs):
        global left
        is_ours = name != "open" or ".tmp" in str(args[0])
        left -= is_ours
        if left == 0 and is_ours and not is_after:
            os.kill(os.getpid(), number)
        result = real(*args, **kwargs)
        if left == 0 and is_ours and is_after:
            os.kill(os.getpid(), number)
        return result
    setattr(os, name, call)
for name in CALLS:
    wrap(name)
sys.argv = ["barrier"]
from barrier.app import main
main()
"""
)


def run_script(
    env: dict[str, str], script: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_call_on_the_volume_leaves_whole_files(
    server: ApiServer, env: dict[str, str], tmp_path: Path, moment: str
) -> None:
    """Then a new barrier passes in the same volume."""
    server.framework = make_framework()
    server.forbidden = {"configmaps"}
    whole: dict[str, bytes] = {}
    work = tmp_path / "work"
    for number in range(1, 2 * len(CALLS) + 2):
        done = run_script(env, KILLER, str(number), moment, "SIGKILL")
        for file in work.iterdir():
            if not file.name.endswith(".tmp"):
                assert file.read_bytes() == whole.setdefault(file.name, file.read_bytes())
                assert file.read_bytes().endswith((b"}", b"variables\n"))
        if done.returncode == 0:
            break
        assert done.returncode == -9
    assert number == 2 * len(CALLS) + 1, "it was killed at each call, and ends by itself then"
    assert sorted(whole) == ["framework.json", "injector.sh"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_terminated_at_every_call_on_the_volume_leaves_nothing_half_made(
    server: ApiServer, env: dict[str, str], tmp_path: Path, moment: str
) -> None:
    server.framework = make_framework()
    server.forbidden = {"configmaps"}
    for number in range(1, 2 * len(CALLS) + 2):
        done = run_script(env, KILLER, str(number), moment, "SIGTERM")
        assert list((tmp_path / "work").glob("*.tmp")) == []
        assert json.loads((tmp_path / "termination").read_text())["exitCode"] == done.returncode
        if done.returncode == 0:
            break
        assert done.returncode == 143
    assert number == 2 * len(CALLS) + 1, "it was ended at each call, and ends by itself then"


TERMINATED_AT = """
import os, signal, sys
import barrier.app as app
owner, name = {"start": (app.Run, "run"), "end": (os, "_exit")}[sys.argv[1]]
real = getattr(owner, name)
def call(*args):
    os.kill(os.getpid(), signal.SIGTERM)
    return real(*args)
setattr(owner, name, call)
sys.argv = ["barrier"]
app.main()
"""


@pytest.mark.parametrize(("moment", "code"), [("start", 143), ("end", 0)])
def test_terminated_at_start_and_end_has_the_documented_exit_code(
    server: ApiServer, env: dict[str, str], tmp_path: Path, moment: str, code: int
) -> None:
    """There is no traceback before the first step and after the last step."""
    server.add(make_configmap(make_roster()))
    done = run_script(env, TERMINATED_AT, moment)
    assert "Traceback" not in done.stderr
    assert done.returncode == code
    assert json.loads((tmp_path / "termination").read_text())["exitCode"] == code


def build_volume(options: str, target: Path) -> tuple[str, ...]:
    """Build the command that runs another one with an own file system at ``target``."""
    target.mkdir()
    return build_mount_prefix(f'mount -t tmpfs -o {options} none "$0" && exec "$@"', target)


def test_volume_read_only_is_an_error_before_the_wait(start: Starter, tmp_path: Path) -> None:
    """The message names directory, cause and remedy."""
    work = tmp_path / "work"
    barrier = start(prefix=build_volume("ro,size=64k", work))
    assert barrier.wait() == 1
    assert f"cannot write into {work}: " in barrier.text
    assert "Read-only file system" in barrier.text
    assert "mount a writable volume there" in barrier.text


def test_volume_full_ends_with_the_cause(server: ApiServer, start: Starter, tmp_path: Path) -> None:
    """A file that does not fit is not there at all."""
    server.framework = make_framework()
    server.forbidden = {"configmaps"}
    prefix = list(build_volume("size=8k", tmp_path / "work"))
    # One page is left, too little for framework.json.
    prefix[4] = prefix[4].replace("&&", '&& head -c 6000 /dev/zero >"$0/ballast" &&')
    prefix[4] = prefix[4].replace('exec "$@"', '"$@"; code=$?; ls "$0"; exit $code')
    server.framework["metadata"]["annotations"] = {"padding": "x" * 8000}
    barrier = start(prefix=tuple(prefix))
    assert barrier.wait() == 1
    assert "No space left on device" in barrier.text
    assert barrier.process.stdout is not None
    assert barrier.process.stdout.read().split() == ["ballast"], "nothing is left behind"
