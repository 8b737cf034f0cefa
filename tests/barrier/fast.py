"""A barrier in this process, against real sockets, by a clock that runs faster than the machine's.

A minute's timeout would cost a minute; by this clock it costs two seconds.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from barrier.app import Run
from framework.agent.clock import AgentClock

SPEED = 30.0


class FastClock(AgentClock):
    """Thirty seconds in one of the machine's."""

    def monotonic(self) -> float:
        return time.monotonic() * SPEED

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / SPEED)

    def to_machine(self, seconds: float) -> float:
        return seconds / SPEED


def build_env(address: str, folder: Path, **more: str) -> dict[str, str]:
    """Build what the original's barrier is given: no more than the Framework's name."""
    account = folder / "account"
    account.mkdir(exist_ok=True)
    (account / "token").write_text("token")
    return {
        "KUBE_APISERVER_ADDRESS": address,
        "FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": str(account),
        "BARRIER_WORKING_DIR": str(folder / "work"),
        "BARRIER_TERMINATION_LOG": str(folder / "none"),
        "BARRIER_CHECK_INTERVAL_SEC": "5",
        "BARRIER_CHECK_TIMEOUT_SEC": "60",
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": "f",
        **more,
    }


IDENTITY = {
    "FC_CONFIGMAP_NAME": "f-attempt",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": "0_cm-uid",
    "FC_CONFIGMAP_UID": "cm-uid",
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "1",
    "FC_TASK_ATTEMPT_ID": "0",
    "FC_POD_UID": "pod-1",
}


def run_barrier(env: Mapping[str, str]) -> tuple[int, float]:
    """Run it to its end: (exit code, its own seconds)."""
    clock = FastClock()
    started_at = clock.monotonic()
    barrier = Run(env, clock)
    try:
        code = barrier.run()
    finally:
        barrier.close()
    return code, clock.monotonic() - started_at
