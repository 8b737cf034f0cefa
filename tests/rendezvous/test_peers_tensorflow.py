"""``peers_tensorflow``: when TensorFlow is asked to save, and with which code the process ends.

TensorFlow itself is in tests/consumers; here a module of its name holds what is given to it.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

TENSORFLOW = """
from types import SimpleNamespace
distribute = SimpleNamespace(experimental=SimpleNamespace(TerminationConfig=SimpleNamespace))
"""
PREAMBLE = """
import os, signal, sys, threading
from rendezvous.site import peers_tensorflow
config = peers_tensorflow.build_termination_config(timeout={timeout}, grace_period=7)
assert config.grace_period == 7
assert not config.termination_watcher_fn()
print("ready", flush=True)
"""


@contextmanager
def run_script(
    tmp_path: Path, script: str, timeout: float = 20
) -> "Iterator[subprocess.Popen[str]]":
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    process = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE.format(timeout=timeout) + script],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_sigterm_asks_for_the_checkpoint_and_ends_nothing(tmp_path: Path) -> None:
    script = """
while not config.termination_watcher_fn():
    signal.sigtimedwait([], 0.01)
print("saved")
config.exit_fn()
"""
    with run_script(tmp_path, script) as process:
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=HANG_SECONDS)[0] == "saved\n"
        assert process.returncode == 143


def test_process_whose_peer_was_asked_first_waits_until_it_is_asked(tmp_path: Path) -> None:
    with run_script(tmp_path, "print('waits', flush=True)\nconfig.exit_fn()") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANG_SECONDS) == 143


def test_process_that_is_not_asked_to_end_ends_with_a_transient_code(tmp_path: Path) -> None:
    with run_script(tmp_path, "config.exit_fn()", timeout=0.05) as process:
        assert process.wait(timeout=HANG_SECONDS) == 201


def test_ending_waits_for_no_other_thread(tmp_path: Path) -> None:
    """TensorFlow's own threads may wait for peers that are gone."""
    script = """
threading.Thread(target=threading.Event().wait).start()
os.kill(os.getpid(), signal.SIGTERM)
config.exit_fn()
"""
    with run_script(tmp_path, script) as process:
        assert process.wait(timeout=HANG_SECONDS) == 143


def test_signal_at_any_line_of_the_wait_ends_the_process(tmp_path: Path) -> None:
    """A handler that needs a lock of the interrupted wait would never return."""
    script = f"""
def wait_with_signal_at(line):
    passed = 0
    def trace(frame, event, argument):
        nonlocal passed
        passed += 1
        if passed == line:
            signal.raise_signal(signal.SIGTERM)
        return trace
    signal.alarm({HANG_SECONDS} // 4)
    sys.settrace(trace)
    config.exit_fn()

for line in range(1, 15):
    child = os.fork()
    if child == 0:
        wait_with_signal_at(line)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143, line
"""
    with run_script(tmp_path, script) as process:
        assert process.wait(timeout=HANG_SECONDS) == 0
