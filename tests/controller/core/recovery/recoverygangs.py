"""Three workers that restart in place."""

from datetime import datetime, timedelta
from typing import Any

from framework.api.constants import EPOCH_STARTED_ANNOTATION, PROCESS_ENDED_ANNOTATION
from framework.api.epochreports import EpochStart, ProcessEnd, encode_end, encode_start
from framework.api.recovery import InPlaceSpec, RecoverySpec, RecoveryStatus
from framework.api.roster import RosterRecovery, fingerprint_uid
from tests.support.builders import build_role, build_spec
from tests.support.builders.worlds import World, get_code, get_task

IN_PLACE = RecoverySpec(InPlaceSpec(2, 3600))


class Gang(World):
    """A gang of workers that runs; worker 0 to 2 are restarted in place."""

    def __init__(self, recovery: RecoverySpec | None = IN_PLACE, **fields: Any) -> None:
        super().__init__(build_spec(build_role(number=3, recovery=recovery, **fields)))
        self.run()

    def run(self) -> None:
        self.settle()
        for index in range(3):
            self.run_pod(name(index), index + 1)
        self.settle()
        self.pause(1)

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle()

    def succeed(self, index: int) -> None:
        self.end_pod(name(index), 0)
        self.pause(1)
        self.remove_pod(name(index))
        self.pause(1)

    def report(self, index: int, epoch: int, code: int = 137) -> None:
        self.annotate(index, PROCESS_ENDED_ANNOTATION, encode_end(ProcessEnd(epoch, code)))

    def start(self, index: int, epoch: int, *missing: str) -> None:
        text = encode_start(EpochStart(self.shown.since, epoch, missing))
        self.annotate(index, EPOCH_STARTED_ANNOTATION, text)

    def annotate(self, index: int, key: str, value: str) -> None:
        pod = self.pods[name(index)]
        self._change(pod.name, annotations={**pod.annotations, key: value})

    def mark(self, index: int) -> str:
        return fingerprint_uid(self.pods[name(index)].uid)

    @property
    def stored(self) -> RecoveryStatus:
        return self.status.attempt_status.recovery or RecoveryStatus()

    @property
    def stored_begin(self) -> datetime | None:
        barrier = self.stored.start_barrier
        return barrier.begin_time if barrier is not None else None

    def get_codes(self) -> list[int | None]:
        return [get_code(get_task(self.status, index)) for index in range(3)]

    @property
    def shown(self) -> RosterRecovery:
        roster = self.published.roster
        assert roster is not None
        assert roster.recovery is not None
        return roster.recovery


def name(index: int) -> str:
    return f"gang-worker-{index}"
