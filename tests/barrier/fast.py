"""A barrier in this process, over real sockets, with a clock that runs 30 times as fast.

A timeout of a minute takes two seconds. The clock advances in small steps, each after a short
sleep: while other programs keep this process waiting, the clock waits too.
"""

import functools
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from barrier.app import Run
from framework.agent.clock import AgentClock

_SPEED = 30.0
_STEP_SECONDS = 0.004


class _Ticker:
    """The time of all fast clocks of this process."""

    def __init__(self) -> None:
        self.now = 0.0

    @functools.cached_property
    def thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="fast clock", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while True:
            time.sleep(_STEP_SECONDS)
            self.now += _STEP_SECONDS * _SPEED


_TICKER = _Ticker()


class FastClock(AgentClock):
    """Thirty seconds in one of the machine's, or fewer when it is busy."""

    def __init__(self) -> None:
        assert _TICKER.thread.is_alive()

    def monotonic(self) -> float:
        return _TICKER.now

    def sleep(self, seconds: float) -> None:
        ends_at = self.monotonic() + seconds
        while self.monotonic() < ends_at:
            time.sleep(_STEP_SECONDS)

    def to_machine(self, seconds: float) -> float:
        return seconds / _SPEED


def run_after(seconds: float, *actions: Callable[[], object]) -> threading.Thread:
    """Act after so many seconds of the fast clock, in another thread."""

    def act() -> None:
        FastClock().sleep(seconds)
        for action in actions:
            action()

    thread = threading.Thread(target=act, name="fast timer")
    thread.start()
    return thread


NAMES = {"FC_FRAMEWORK_NAMESPACE": "default", "FC_FRAMEWORK_NAME": "f"}
POD = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1", "FC_TASK_ATTEMPT_ID": "0"}
ATTEMPT = {"FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": "0_cm-uid", "FC_CONFIGMAP_UID": "cm-uid"}
IDENTITY = POD | ATTEMPT | {"FC_CONFIGMAP_NAME": "f-attempt", "FC_POD_UID": "pod-1"}


def build_env(address: str, folder: Path, **more: str) -> dict[str, str]:
    """Build the environment of the original's barrier: of the gang, only the Framework's name."""
    account = folder / "account"
    account.mkdir(exist_ok=True)
    (account / "token").write_text("good-token")
    return {
        "KUBE_APISERVER_ADDRESS": address,
        "FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": str(account),
        "BARRIER_WORKING_DIR": str(folder / "work"),
        "BARRIER_TERMINATION_LOG": str(folder / "termination"),
        **NAMES,
        **more,
    }


def run_barrier(env: Mapping[str, str]) -> tuple[int, float]:
    """Run a barrier to its end; return its exit code and the seconds by its clock."""
    clock = FastClock()
    started_at = clock.monotonic()
    barrier = Run(env, clock)
    try:
        code = barrier.run()
    finally:
        barrier.close()
    return code, clock.monotonic() - started_at
