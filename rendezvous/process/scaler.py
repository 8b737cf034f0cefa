"""Executes the requests of scalers in the launcher: ``core.scaling`` decides.

It also delays acknowledgements while processes use members that leave their nodes.

The script runs beside the loop of the agent, in a session of its own, so the agent keeps the host
files up to date meanwhile. The output of the script goes to the output of the container; its last
bytes are kept for the message of a failure.
"""

import contextlib
import os
import signal
import threading
from typing import Callable, List, Mapping, Optional

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api.roster import Roster
from framework.api.scalerequest import (
    ScaleRequest,
    ScaleRequestError,
    ScaleResult,
    decode_request,
    encode_result,
    split_script,
)
from framework.api.text import make_printable
from rendezvous.core.scaling import (
    FAILED_CODE,
    Conclude,
    Record,
    StartScript,
    Step,
    Wait,
    decide_request,
    describe_busy,
    has_members_as_asked,
    list_hosts,
    render_argument,
)
from rendezvous.process.children import Children, StartError
from rendezvous.process.leavinghosts import LeavingHosts
from rendezvous.process.processes import list_processes_naming
from rendezvous.volume.records import Records

_TIMEOUT_CODE = 124  # as that of timeout(1)
_KILL_SECONDS = 5.0
_BUSY_POLL_SECONDS = 0.2
_READ_BYTES = 4096
_KEPT_BYTES = 400
_DRAIN_SECONDS = 1.0


class Scaler:
    """The requests of scalers, one at a time."""

    def __init__(
        self,
        framework: str,
        children: Children,
        records: Records,
        report: Callable[[str], None],
        reporter: LineReporter,
        clock: AgentClock,
        slots: Mapping[str, int],
    ) -> None:
        """Continue from the record that an earlier agent has written into the volume.

        ``slots``, by role, are those of the host files: the slots of the job may have changed.
        """
        self._framework = framework
        self._children = children
        self._records = records
        self._report = report
        self._reporter = reporter
        self._clock = clock
        self._slots = slots
        self._stored = ""
        self._request: Optional[ScaleRequest] = None
        self._seen_at = 0.0
        self._script: Optional[_Script] = None
        self._record = records.read_scaler()
        self._unstored: Optional[Record] = None
        self._reported = ""
        self._leaving = LeavingHosts(framework)
        self._has_busy_leavers = False

    def delays_acknowledgement(self, roster: Optional[Roster]) -> bool:
        """Return whether no generation may be acknowledged now; ``roster`` is the current one.

        A drain waits for the request of a ScaleIn. The Pod of a member that leaves its node waits
        for the processes that use it.
        """
        self._leaving.observe(roster, self._request)
        busy = self._leaving.list_busy()
        self._has_busy_leavers = bool(busy)
        if busy:
            self._reporter.say_once(f"a Pod that leaves its node waits: {describe_busy(busy)}")
        return bool(busy) or self.has_open_scale_in

    @property
    def has_open_scale_in(self) -> bool:
        """Return whether the drain of workers must wait for the request of a ScaleIn."""
        request = self._request
        if request is None or not request.is_scale_in:
            return False
        return self._record.uid != request.uid or self._record.result is None

    @property
    def poll_seconds(self) -> float:
        """Return for how long the agent may wait for news."""
        is_done = self._request is None or self._reported == self._request.uid
        return 1.0 if is_done and not self._has_busy_leavers else _BUSY_POLL_SECONDS

    def observe(self, stored: str) -> None:
        """Take the request of the attempt's ConfigMap; "" if there is none."""
        if stored == self._stored:
            return
        self._stored, request = stored, None
        if stored:
            try:
                request = decode_request(stored)
            except ScaleRequestError as e:
                problem = "the request of a scaler in the attempt's ConfigMap cannot be read"
                self._reporter.say_once(f"{problem}: {e}", "warning")
        if request is None or self._request is None or request.uid != self._request.uid:
            self._seen_at = self._clock.monotonic()
        if request is not None:
            request = request._replace(slots=self._slots.get(request.role, request.slots))
        self._request = request

    def turn(self, roster: Optional[Roster]) -> None:
        """Take the next step; ``roster`` is the current generation.

        Raises:
            OSError: The volume cannot be written. The next turn tries the step again.
        """
        self._leaving.observe(roster, self._request)
        if self._unstored is not None:
            self._publish(self._unstored)
        if self._script is not None and not self._end_script(self._script):
            return
        request = self._request
        if request is None:
            return
        waited = self._clock.monotonic() - self._seen_at
        busy: List[str] = []
        is_new = self._record.uid != request.uid
        if is_new and request.is_scale_in and has_members_as_asked(request, roster):
            busy = list_processes_naming(list_hosts(request, self._framework))
        self._take(decide_request(request, self._record, roster, busy, waited))

    def _take(self, step: Step) -> None:
        if isinstance(step, Wait):
            self._reporter.say_once(f"a scaler waits: {step.reason}")
        elif isinstance(step, StartScript):
            self._start(step.request)
        elif isinstance(step, Conclude):
            self._conclude(step.result)
        elif self._reported != step.result.uid:
            self._reported = step.result.uid
            self._report(encode_result(step.result))

    def _start(self, request: ScaleRequest) -> None:
        record = Record(request.uid)
        self._records.write_scaler(record)
        self._record = record
        argument = render_argument(request, self._framework)
        argv = ["/bin/sh", *split_script(request.script), argument]
        self._reporter.say(f"a scaler runs its script: {make_printable(request.script)}")
        env = {**os.environ, **dict(request.env)}
        deadline = self._clock.monotonic() + request.timeout_seconds
        try:
            self._script = _Script(request, argv, env, self._children, deadline)
        except StartError as e:
            self._conclude(ScaleResult(request.uid, e.exit_code, str(e)))
        except (OSError, RuntimeError) as e:  # no pipe, or no thread at the limit of processes
            self._conclude(ScaleResult(request.uid, FAILED_CODE, f"the script: {e}"))

    def _end_script(self, script: "_Script") -> bool:
        """Check the running script; return whether it has ended."""
        now = self._clock.monotonic()
        is_wanted = self._request is not None and self._request.uid == script.request.uid
        if not is_wanted:
            script.shorten(now)
        result = script.poll(now)
        if result is None:
            return False
        self._script = None
        self._conclude(result)
        return True

    def _conclude(self, result: ScaleResult) -> None:
        text = f": {make_printable(result.message)}" if result.message else ""
        self._reporter.say(f"a scaler ended with {result.code}{text}")
        self._unstored = Record(result.uid, result)
        self._publish(self._unstored)

    def _publish(self, record: Record) -> None:
        """Store a result before it is reported, so that no later agent reports another result."""
        self._records.write_scaler(record)
        self._record, self._unstored = record, None
        if record.result is not None:
            self._reported = record.uid
            self._report(encode_result(record.result))


class _Script:
    """A running script."""

    def __init__(
        self,
        request: ScaleRequest,
        argv: List[str],
        env: "dict[str, str]",
        children: Children,
        deadline: float,
    ) -> None:
        self.request = request
        self._deadline = deadline
        self._children = children
        self._is_terminated = False
        self._late = f"the script did not end in {request.timeout_seconds} s"
        self._tail = b""
        reader, writer = os.pipe()
        try:
            self._pid = children.start(argv, env, output=writer)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._thread = threading.Thread(target=self._copy, args=(reader,), daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            os.close(reader)
            # The result reports the failure.
            children.kill_session(self._pid)
            raise

    def shorten(self, now: float) -> None:
        """End the script now, because its request was removed."""
        if now < self._deadline:
            self._deadline = now
            self._late = "the request was removed while the script ran"

    def poll(self, now: float) -> Optional[ScaleResult]:
        """Return the result, once. Ends the script when its time is over."""
        self._children.reap()
        code = self._children.take_code(self._pid)
        if code is None:
            if now >= self._deadline + _KILL_SECONDS:
                self._children.kill_session(self._pid)
            elif now >= self._deadline and not self._is_terminated:
                self._is_terminated = True
                self._children.signal_group(self._pid, signal.SIGTERM)
            return None
        self._thread.join(_DRAIN_SECONDS)
        uid = self.request.uid
        if self._is_terminated:
            return ScaleResult(uid, _TIMEOUT_CODE, self._late)
        if code == 0:
            return ScaleResult(uid, 0)
        said = self._tail.decode("utf-8", "replace").strip()
        return ScaleResult(uid, code, f"the script ended with {code}" + (said and f": {said}"))

    def _copy(self, reader: int) -> None:
        """Copy the output to the output of the container, and keep its last bytes."""
        with contextlib.suppress(OSError), open(reader, "rb", buffering=0) as pipe:
            while True:
                part = pipe.read(_READ_BYTES)
                if not part:
                    return
                self._tail = (self._tail + part)[-_KEPT_BYTES:]
                with contextlib.suppress(OSError):
                    os.write(1, part)
