"""A gang whose progress rank 0 watches: agents that report every 2 s of virtual time."""

import json
import random

from rendezvous.core.hangs.progress import StandstillLimits
from rendezvous.core.hangs.reports import (
    AgentReport,
    Answer,
    ProcessReport,
    Verdict,
    decode_answer,
    decode_report,
    encode_answer,
    encode_report,
)
from rendezvous.core.hangs.watch import GangWatch

LIMITS = StandstillLimits(step_seconds=60.0, first_seconds=600.0)
RANKS = 8
REPORT_SECONDS = 2.0


class Gang:
    """Agents with a process each. They answer requests for stacks with their next report."""

    def __init__(self, seed: int = 0, count: int = RANKS) -> None:
        self.random = random.Random(seed)
        self.watch = GangWatch(LIMITS, 0)
        self.now = 1000.0
        self.run = (1, 0)
        self.steps: list[int | None] = [None] * count
        self.changed = [self.now] * count
        self.moved: list[float | None] = [None] * count
        self.paused = [0.0] * count
        self.stopped = [False] * count
        self.stacks = ["all_reduce"] * count
        self.asked = [0] * count
        self.answers = [Answer()] * count
        self.busy = [1.0] * count
        self.silent: set[int] = set()
        self.reporting = set(range(count))
        self.started = self.now

    def step(self) -> None:
        for index, step in enumerate(self.steps):
            self.moved[index] = None if step is None else self.changed[index]
            self.steps[index] = 0 if step is None else step + 1
            self.changed[index] = self.now

    def report(self, index: int) -> Answer:
        moved = self.moved[index]
        process = ProcessReport(
            index,
            self.steps[index],
            100,
            self.now - self.changed[index],
            max(0.0, self.paused[index] - self.now),
            self.stopped[index],
            self.stacks[index] if self.asked[index] and not self.stopped[index] else "",
            self.busy[index],
            None if moved is None else self.now - moved,
        )
        if index not in self.reporting:
            process = ProcessReport(index, None, None, self.now - self.started)
        report = decode_report(
            json.loads(
                json.dumps(encode_report(AgentReport(self.run, self.asked[index], (process,))))
            )
        )
        answer = self.watch.take(("worker", index), report, self.now)
        answer = decode_answer(json.loads(json.dumps(encode_answer(answer))))
        self.asked[index] = answer.ask or self.asked[index]
        self.answers[index] = answer
        return answer

    def let_pass(self, seconds: float) -> list[Verdict]:
        """All agents report, in any order; return the verdicts."""
        found: dict[Verdict, None] = {}
        end = self.now + seconds
        while self.now < end:
            order = [i for i in range(len(self.steps)) if i not in self.silent]
            self.random.shuffle(order)
            for index in order:
                self.now += REPORT_SECONDS / len(self.steps)
                verdict = self.report(index).verdict
                if verdict is not None:
                    found[verdict._replace(seconds=0.0)] = None
        return list(found)
