"""Acknowledges to the controller which generation was applied, in an annotation of the own Pod.

A drain of the controller waits for it. The right to patch is granted only where a role drains, so a
missing right is no error: it is logged once. Results of scalers and reports of restarts and of
progress are annotations, too. Rules: docs/design/agents.md, "Acknowledgement" and "Scalers".
"""

import json
from typing import Any, Dict

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.connection import Answer, Connection, UnreachableError
from framework.agent.report import LineReporter
from framework.api import constants
from rendezvous.core.target import Target

_OK = (200, 201)
_UNAUTHORIZED = 401
_PERMANENT = (400, 403, 404, 409, 422)
_RETRY_SECONDS = 2.0
# Pauses after refusals, each twice as long as the one before.
_REFUSED_SECONDS = 5.0
_LONGEST_REFUSED_SECONDS = 60.0
NO_DRAIN = (
    "generations are not acknowledged, so a drain of this gang does not wait for this Pod (that is "
    "right where no role drains): "
)
NO_RESTART = (
    "failed processes are not reported, so they are not restarted in place; give the service "
    "account the Role of deploy/agents/drain: "
)
NO_PROGRESS = (
    "the progress of the training is not in the status; give the service account the Role of "
    "deploy/agents/drain, or set FB_ACKNOWLEDGE=off: "
)


class Acknowledger:
    """Writes the annotations; if that fails, the newest values are sent again later.

    Refused values are dropped, unless ``repeats_refused``: a restart in place waits for them, and a
    missing right, policy or token may be added later.
    """

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        target: Target,
        reporter: LineReporter,
        effect: str = NO_DRAIN,
        *,
        repeats_refused: bool = False,
    ) -> None:
        """Acknowledge for the Pod of ``target``; ``effect`` is the message of a refused write."""
        self._effect = effect
        self._repeats_refused = repeats_refused
        self._refused_seconds = _REFUSED_SECONDS
        self._connection = Connection(access, clock)
        self._clock = clock
        self._target = target
        self._reporter = reporter
        self._pending: Dict[str, str] = {}
        self._next_try_at = 0.0
        self._is_refused = False

    @property
    def is_refused(self) -> bool:
        """Whether the API server refused the last write that it answered."""
        return self._is_refused

    @property
    def is_pending(self) -> bool:
        """Whether a value is still to be sent."""
        return bool(self._pending)

    def acknowledge(self, generation: int) -> None:
        """Report that a published generation was applied."""
        self._annotate(constants.ACKNOWLEDGED_GENERATION_ANNOTATION, str(generation))

    def report_scaler(self, result: str) -> None:
        """Report the encoded result of a scaler."""
        self._annotate(constants.SCALER_RESULT_ANNOTATION, result)

    def report_end(self, report: str) -> None:
        """Report the end of a process, encoded."""
        self._annotate(constants.PROCESS_ENDED_ANNOTATION, report)

    def report_start(self, report: str) -> None:
        """Report the start of an epoch, encoded."""
        self._annotate(constants.EPOCH_STARTED_ANNOTATION, report)

    def report_progress(self, report: str) -> None:
        """Report the progress of the training, encoded."""
        self._annotate(constants.TRAINING_PROGRESS_ANNOTATION, report)

    def _annotate(self, name: str, value: str) -> None:
        if self._target.pod:
            self._pending[name] = value
            self._next_try_at = 0.0
            self._refused_seconds = _REFUSED_SECONDS
            self.flush()

    def flush(self) -> None:
        """Send the pending annotations if they are due."""
        if not self._pending or self._clock.monotonic() < self._next_try_at:
            return
        try:
            answer = self._connection.fetch("PATCH", self._build_path(), self._build_patch())
        except UnreachableError:
            self._try_again(0.0)
            return
        if answer.head.status in _OK:
            self._pending, self._is_refused = {}, False
        elif answer.head.status in _PERMANENT:
            self._is_refused = True
            self._explain(answer)
            if self._repeats_refused:
                self._try_again(self._refused_seconds)
                self._refused_seconds = min(2 * self._refused_seconds, _LONGEST_REFUSED_SECONDS)
            else:
                self._pending = {}
        else:
            if answer.head.status == _UNAUTHORIZED:
                self._connection.close()  # the next request reads the token again
            self._try_again(answer.head.retry_after_seconds or 0.0)

    def _try_again(self, after_seconds: float) -> None:
        # A random wait, because all agents of the gang fail at the same time.
        wait = self._clock.uniform(_RETRY_SECONDS / 2, _RETRY_SECONDS) + after_seconds
        self._next_try_at = self._clock.monotonic() + wait

    def _explain(self, answer: Answer) -> None:
        self._reporter.say_once(self._effect + answer.describe())

    def _build_path(self) -> str:
        return f"/api/v1/namespaces/{self._target.namespace}/pods/{self._target.pod}"

    def _build_patch(self) -> bytes:
        metadata: Dict[str, Any] = {"annotations": self._pending}
        if self._target.identity.pod_uid:
            # A precondition: never patch the Pod that replaces this Pod.
            metadata["uid"] = self._target.identity.pod_uid
        return json.dumps({"metadata": metadata}).encode()
