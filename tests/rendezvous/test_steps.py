"""What training code reports by ``peers.progress`` and ``peers.pause``, read as the agent does."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rendezvous.site import peers
from rendezvous.site.peers.reporting import steps
from rendezvous.site.peers.reporting.progress_page import (
    MAX_METRICS,
    PAGE_BYTES,
    STACKS_SIGNAL,
    Page,
    find_stacks,
    read_page,
)
from tests.support.measuring.cost import assert_costs_at_most
from tests.support.waiting import HANG_SECONDS

SITE = Path(peers.__file__).parent.parent


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "5")
    steps._forget()
    yield tmp_path / "progress" / str(os.getpid())
    steps._forget()


def read(page: Path) -> Page:
    found = read_page(str(page))
    assert found is not None
    return found


def test_step_total_and_metrics_are_read_as_they_were_reported(page: Path) -> None:
    assert read_page(str(page)) is None
    peers.progress(41, total=100, loss=0.5, note="text", wrong=float("nan"))  # type: ignore[arg-type]  # left out
    found = read(page)
    assert (found.pid, found.rank, found.step, found.total) == (os.getpid(), 5, 41, 100)
    assert found.metrics == {"loss": 0.5}
    peers.progress(42)
    found = read(page)
    assert (found.step, found.total, found.metrics) == (42, None, {"loss": 0.5})
    assert page.stat().st_size == PAGE_BYTES


def test_metrics_are_bounded(page: Path) -> None:
    metrics = {f"metric{i}": float(i) for i in range(100)}
    peers.progress(1, **metrics)  # type: ignore[arg-type]  # none is named total
    assert len(read(page).metrics) == MAX_METRICS
    assert page.stat().st_size == PAGE_BYTES


@pytest.mark.parametrize("step", [-1, 2**63, 2**70])
def test_step_out_of_range_is_no_step(page: Path, step: int) -> None:
    peers.progress(step, total=step)
    assert (read(page).step, read(page).total) == (None, None)


def test_busy_seconds_add_up(page: Path) -> None:
    for busy in (0.5, 0.25, float("inf"), -3.0):
        peers.progress(1, busy_seconds=busy)
    assert 0.75 <= read(page).busy_seconds < HANG_SECONDS


def test_pause_ends_with_its_block_and_may_be_nested(page: Path) -> None:
    peers.progress(1)
    assert read(page).paused_until == 0.0
    with peers.pause("evaluation", limit_seconds=1000.0):
        outer = read(page)
        assert outer.pause == "evaluation"
        assert outer.paused_until > time.monotonic() + 900.0
        with peers.pause("checkpoint", limit_seconds=10.0):
            inner = read(page)
            assert (inner.pause, inner.paused_until) == ("checkpoint", outer.paused_until)
        assert (read(page).pause, read(page).paused_until) == ("evaluation", outer.paused_until)
    ended = read(page)
    assert (ended.pause, ended.step) == ("", 1)


def test_pauses_of_two_threads_end_in_any_order(page: Path) -> None:
    checkpoint = peers.pause("checkpoint", limit_seconds=600.0)
    evaluation = peers.pause("evaluation", limit_seconds=3600.0)
    checkpoint.__enter__()
    evaluation.__enter__()
    checkpoint.__exit__(None, None, None)
    assert read(page).pause == "evaluation"
    assert read(page).paused_until > time.monotonic() + 3000.0
    evaluation.__exit__(None, None, None)
    assert read(page).pause == ""
    assert read(page).paused_until <= time.monotonic()


def test_pause_ends_when_its_block_fails(page: Path) -> None:
    with pytest.raises(RuntimeError), peers.pause("x" * 500, limit_seconds=1000.0):
        raise RuntimeError
    assert read(page).pause == ""
    assert read(page).paused_until <= time.monotonic()


def test_volume_that_cannot_be_written_stops_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "progress").write_text("no folder")
    for step in range(3):
        peers.progress(step)
    with peers.pause("checkpoint", limit_seconds=1.0):
        peers.progress(3)
    assert [record.message for record in caplog.records if "progress: not" in record.message] == [
        caplog.records[0].message
    ]


def test_bytes_that_are_no_page_are_not_taken(page: Path) -> None:
    peers.progress(7)
    good = page.read_bytes()
    randomness = random.Random(7)
    for _ in range(300):
        content = bytearray(good)
        for _ in range(randomness.randint(1, 40)):
            content[randomness.randrange(0, 400)] = randomness.randrange(256)
        page.write_bytes(bytes(content))
        found = read_page(str(page))
        assert found is None or (found.step is None or found.step >= 0)
        assert found is None or len(found.metrics) <= MAX_METRICS
    page.write_bytes(good[:-1])
    assert read_page(str(page)) is None
    page.unlink()
    page.symlink_to("/etc/hostname")
    assert read_page(str(page)) is None


def run_training(tmp_path: Path, code: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(SITE), "BARRIER_WORKING_DIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def test_signal_writes_the_stacks_of_a_process_that_hangs(tmp_path: Path) -> None:
    code = """
import peers, threading
def wait_for_the_lock():
    lock = threading.Lock()
    lock.acquire()
    print(flush=True)
    lock.acquire()
peers.progress(1)
wait_for_the_lock()
"""
    process = run_training(tmp_path, code)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        path = tmp_path / "progress" / str(process.pid)
        assert read(path).signal == STACKS_SIGNAL
        stacks = Path(find_stacks(str(path)))
        process.send_signal(STACKS_SIGNAL)
        deadline = time.monotonic() + HANG_SECONDS
        while "<module>" not in stacks.read_text():
            assert time.monotonic() < deadline
        assert "in wait_for_the_lock" in stacks.read_text()
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_signal_that_the_program_has_taken_stays_its_own(tmp_path: Path) -> None:
    code = f"""
import signal, peers, os
signal.signal({int(STACKS_SIGNAL)}, lambda *_: print("mine", flush=True))
peers.progress(1)
os.kill(os.getpid(), {int(STACKS_SIGNAL)})
input()
"""
    process = run_training(tmp_path, code)
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    path = tmp_path / "progress" / str(process.pid)
    assert read(path).signal == 0
    assert not Path(find_stacks(str(path))).exists()
    process.communicate("\n", timeout=HANG_SECONDS)


def test_forked_child_has_a_page_of_its_own(tmp_path: Path) -> None:
    code = """
import os, peers, signal
from peers.reporting import steps
peers.progress(1)
child = os.fork()
if not child:
    assert signal.getsignal(steps.STACKS_SIGNAL) == signal.SIG_DFL
    peers.progress(2)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(child, flush=True)
"""
    process = run_training(tmp_path, code)
    child, _ = process.communicate(timeout=HANG_SECONDS)
    assert read(tmp_path / "progress" / str(process.pid)).step == 1
    assert read(tmp_path / "progress" / child.strip()).step == 2


def test_keras_reports_steps_and_its_evaluation(page: Path) -> None:
    callback = peers.KerasProgress(pause_seconds=500.0)
    callback.set_params({"epochs": 2, "steps": 10})
    callback.set_model(None)
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(0, {"loss": 1.5})
    callback.on_train_batch_end(1, {"loss": 1.0})
    assert (read(page).step, read(page).total, read(page).metrics) == (2, 20, {"loss": 1.5})
    callback.on_test_begin()
    assert read(page).pause == "evaluation"
    callback.on_test_end()
    assert read(page).pause == ""


def fit(callback: peers.KerasProgress, initial: int, epochs: int, ended: int) -> None:
    """Train epochs of 10 steps; ``ended`` is less than ``epochs`` if the training stops early."""
    callback.set_params({"epochs": epochs, "steps": 10})
    callback.on_train_begin()
    for epoch in range(initial, ended):
        callback.on_epoch_begin(epoch)
        for batch in range(10):
            callback.on_train_batch_end(batch)
        callback.on_epoch_end(epoch)
    callback.on_train_end()


@pytest.mark.parametrize(
    ("fits", "step"),
    [
        ([(0, 5, 5)], 50),
        ([(0, 10, 3)], 30),  # stopped early
        ([(2, 5, 5)], 50),  # resumed
        ([(0, 1, 1), (1, 2, 2)], 20),
        ([(0, 10, 3), (0, 5, 5)], 80),
        ([(0, 5, 5), (5, 5, 5)], 50),  # nothing is left
    ],
)
def test_step_of_keras_is_the_last_one_when_the_training_has_ended(
    page: Path, fits: list[tuple[int, int, int]], step: int
) -> None:
    callback = peers.KerasProgress()
    for each in fits:
        fit(callback, *each)
    assert (read(page).step, read(page).total) == (step, step)


def test_keras_counts_the_steps_of_the_fits_before(page: Path) -> None:
    callback = peers.KerasProgress()
    fit(callback, 0, 10, 3)
    callback.set_params({"epochs": 5, "steps": 10})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(0)
    assert (read(page).step, read(page).total) == (31, 80)


def test_training_of_keras_without_a_step_reports_none(page: Path) -> None:
    fit(peers.KerasProgress(), 5, 5, 5)
    assert not page.exists()


def test_last_steps_of_lightning_and_of_the_trainer_are_those_that_were_done(page: Path) -> None:
    trainer = SimpleNamespace(global_step=3, estimated_stepping_batches=30)
    callback = peers.LightningProgress()
    callback.on_train_batch_end(trainer, None, {}, {}, 2)
    callback.on_train_end(trainer, None)
    assert (read(page).step, read(page).total) == (3, 3)
    state = SimpleNamespace(global_step=7, max_steps=40)
    control = SimpleNamespace(should_evaluate=True, should_save=False)
    of_transformers = peers.TrainerProgress()
    of_transformers.on_step_end(None, state, control)
    of_transformers.on_train_end(None, state, control)
    assert (read(page).step, read(page).total, read(page).pause) == (7, 7, "")


def test_lightning_reports_steps_and_its_evaluation(page: Path) -> None:
    callback = peers.LightningProgress()
    trainer = SimpleNamespace(global_step=3, estimated_stepping_batches=30)
    callback.setup(trainer, None, "fit")
    callback.on_train_batch_end(trainer, None, {}, {}, 2)
    assert (read(page).step, read(page).total) == (3, 30)
    callback.on_validation_start(trainer, None)
    assert read(page).pause == "evaluation"
    callback.on_validation_end(trainer, None)
    trainer.estimated_stepping_batches = float("inf")
    callback.on_train_batch_end(trainer, None, {}, {}, 3)
    assert (read(page).pause, read(page).total) == ("", None)
    assert callback.state_dict() == {}


def test_trainer_reports_steps_and_what_follows_them(page: Path) -> None:
    callback = peers.TrainerProgress()
    state = SimpleNamespace(global_step=4, max_steps=40)
    control = SimpleNamespace(should_evaluate=False, should_save=True)
    callback.on_init_end(None, state, control)
    callback.on_step_begin(None, state, control)
    callback.on_step_end(None, state, control, model=None)
    assert (read(page).step, read(page).total, read(page).pause) == (4, 40, "checkpoint")
    callback.on_step_begin(None, state, control)
    assert read(page).pause == ""
    with pytest.raises(AttributeError):
        callback.not_a_hook()


def test_callback_is_one_of_the_library_where_that_is_loaded(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Callback:
        """That of Lightning, which refuses objects of other classes."""

        def on_fit_start(self, *_: object) -> str:
            return "of the library"

        def on_train_batch_end(self, *_: object) -> None:
            raise AssertionError("it is overridden")

    monkeypatch.setitem(sys.modules, "lightning.pytorch", SimpleNamespace(Callback=Callback))
    callback = peers.LightningProgress(pause_seconds=5.0)
    assert isinstance(callback, Callback)
    assert isinstance(callback, peers.LightningProgress)
    assert callback.on_fit_start() == "of the library"
    callback.on_train_batch_end(SimpleNamespace(global_step=3, estimated_stepping_batches=30))
    assert read(page).step == 3
    assert not isinstance(peers.TrainerProgress(), Callback)


def test_signal_number_is_one_that_programs_do_not_use() -> None:
    assert signal.SIGRTMIN < STACKS_SIGNAL < signal.SIGRTMAX


def test_call_costs_some_microseconds(page: Path) -> None:
    calls = 10_000

    def report() -> None:
        for step in range(calls):
            peers.progress(step, total=calls, loss=0.5)

    peers.progress(0)
    assert_costs_at_most(5e-6 * calls, report)
    assert read(page).step == calls - 1


def test_metrics_of_a_keras_model_may_have_any_name(page: Path) -> None:
    callback = peers.KerasProgress()
    callback.on_train_batch_end(0, {"total": 0.5, "step": 3.0, "loss": 1.0})
    assert (read(page).step, read(page).total, read(page).metrics) == (1, None, {"loss": 1.0})


def test_stacks_that_cannot_be_written_cost_no_steps(
    page: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another user of the Pod may have made a file of this name."""
    Path(find_stacks(str(page))).mkdir(parents=True)
    peers.progress(5)
    assert (read(page).step, read(page).signal) == (5, 0)
    assert "without stacks" in caplog.text


def test_child_that_leaves_the_block_of_a_pause_goes_on(tmp_path: Path) -> None:
    code = """
import os, peers
def save():
    with peers.pause("checkpoint", 60):
        return os.fork()
peers.progress(1)
child = save()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
peers.progress(2)
os._exit(0)
"""
    process = run_training(tmp_path, code)
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0
