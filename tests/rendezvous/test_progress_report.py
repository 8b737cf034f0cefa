"""The agent of rank 0 reports how far the gang is: at most one request in 15 s."""

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from framework.agent.connection import UnreachableError
from framework.agent.report import LineReporter
from framework.api.constants import TRAINING_PROGRESS_ANNOTATION
from framework.api.trainingprogress import TrainingProgress
from rendezvous.notify import acknowledge
from rendezvous.notify.acknowledge import NO_PROGRESS, Acknowledger
from rendezvous.progress.progressreport import PERIOD_SECONDS, ProgressReport
from tests.support.fakes.agentclock import VirtualClock


class Agent:
    """The agent of rank 0, and an API server that answers with ``status``; 0: it is away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status = 200
        self.sent: list[tuple[float, str]] = []
        self.clock = VirtualClock()
        agent = self

        class Connection:
            def __init__(self, *_: object) -> None:
                """Connect to nothing."""

            def fetch(self, method: str, path: str, body: bytes) -> object:
                return agent.answer(method, path, body)

            def close(self) -> None:
                """Nothing is open."""

        monkeypatch.setattr(acknowledge, "Connection", Connection)
        reporter = LineReporter("test", is_json=False)
        target: Any = SimpleNamespace(pod="p", namespace="d", identity=SimpleNamespace(pod_uid="u"))
        access: Any = None
        reports = Acknowledger(access, self.clock, target, reporter, NO_PROGRESS)
        self.report = ProgressReport(reports, reporter, self.clock)

    def answer(self, method: str, path: str, body: bytes) -> object:
        metadata = json.loads(body)["metadata"]
        assert (method, path, metadata["uid"]) == ("PATCH", "/api/v1/namespaces/d/pods/p", "u")
        assert set(metadata["annotations"]) == {TRAINING_PROGRESS_ANNOTATION}
        step = metadata["annotations"][TRAINING_PROGRESS_ANNOTATION].split()[1]
        self.sent.append((self.clock.now, step))
        if not self.status:
            raise UnreachableError("away")
        head = SimpleNamespace(status=self.status, retry_after_seconds=None)
        return SimpleNamespace(head=head, describe=lambda: "403 Forbidden")

    def let_pass(self, seconds: int, *, moves: bool = True) -> None:
        for _ in range(seconds):
            self.clock.now += 1.0
            if moves:
                step = int(self.clock.now)
                self.report.take(TrainingProgress(7, step, None, 1.0, "", 0, ()))
            self.report.turn()

    def list_pauses(self) -> list[float]:
        times = [at for at, _ in self.sent]
        return [after - before for before, after in itertools.pairwise(times)]


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    return Agent(monkeypatch)


def test_nothing_is_written_before_the_first_step(agent: Agent) -> None:
    agent.let_pass(60, moves=False)
    assert agent.sent == []


@pytest.mark.parametrize("status", [200, 0, 401, 500])
def test_at_most_one_request_in_15_seconds(agent: Agent, status: int) -> None:
    agent.status = status
    agent.let_pass(151)
    assert 9 <= len(agent.sent) <= 11
    assert min(agent.list_pauses()) >= PERIOD_SECONDS


def test_what_has_not_changed_is_not_written_again(agent: Agent) -> None:
    agent.let_pass(30)
    known = len(agent.sent)
    agent.let_pass(15, moves=False)
    agent.let_pass(300, moves=False)
    assert len(agent.sent) <= known + 1, "the newest value is written"
    known = len(agent.sent)
    agent.let_pass(300, moves=False)
    assert len(agent.sent) == known


def test_lost_value_is_sent_again(agent: Agent) -> None:
    agent.status = 0
    agent.let_pass(16)
    agent.status = 200
    last = agent.sent[-1][1]
    agent.let_pass(31, moves=False)
    newest = agent.sent[-1][1]
    assert int(newest) >= int(last)
    known = len(agent.sent)
    agent.let_pass(60, moves=False)
    assert len(agent.sent) == known, "it is answered"


def test_refused_write_is_logged_once_and_tried_again_after_5_minutes(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.status = 403
    agent.let_pass(620)
    assert len(agent.sent) in {2, 3}
    assert min(agent.list_pauses()) >= 300
    assert "".join(capsys.readouterr()).count("deploy/agents/drain") == 1
    agent.status = 200
    agent.let_pass(330)
    assert min(agent.list_pauses()[-1:]) < 300
