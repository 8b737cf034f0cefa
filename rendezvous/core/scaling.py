"""The steps of the launcher's agent for the request of a scaler: a pure function.

1. A request whose script was started or that has a result is not carried out again: the result is
   reported. A script whose end the agent did not see counts as failed.
2. A ScaleIn waits until its workers are not members of the current generation, and until no
   process of the launcher names one of their hosts. A ScaleOut waits until its workers are members.
3. Then the script runs, if there is one. The UID of the scaler is stored before the start.
4. If the wait takes longer than the timeout, the result names the obstacle.

Invariant: a script is started at most once for a UID.

Example: a ScaleIn of worker 1 with the script /leave.sh. Generation 5 is without worker 1, and an
ssh to it runs: wait. It ends: store the UID, run ``sh /leave.sh job-worker-1:2``, store the result
0, report it. A restarted agent reports 0 again and runs nothing.

Rules: docs/design/agents.md, "Scalers".
"""

from typing import NamedTuple, Optional, Sequence, Tuple, Union

from framework.agent.report import join_names
from framework.api.naming import build_pod_name
from framework.api.roster import Roster
from framework.api.scalerequest import ScaleRequest, ScaleResult

FAILED_CODE = -1
"""Code of a result if no script ended."""
_MAX_NAMED = 3


class Record(NamedTuple):
    """The record of the last request, in the volume; without a result, its script was started."""

    uid: str = ""
    result: Optional[ScaleResult] = None


class Wait(NamedTuple):
    """Wait, for this reason."""

    reason: str


class StartScript(NamedTuple):
    """Store the UID, then start the script."""

    request: ScaleRequest


class Conclude(NamedTuple):
    """Store this result, then report it."""

    result: ScaleResult


class Report(NamedTuple):
    """Report a stored result."""

    result: ScaleResult


Step = Union[Wait, StartScript, Conclude, Report]


def decide_request(
    request: ScaleRequest,
    record: Record,
    roster: Optional[Roster],
    busy: Sequence[str],
    waited_seconds: float,
) -> Step:
    """Decide the next step of a request whose script does not run.

    Args:
        request: the request.
        record: the record in the volume.
        roster: the current generation.
        busy: processes of the launcher that name a host of the workers that leave.
        waited_seconds: the time since the agent first read the request.
    """
    if record.uid == request.uid:
        if record.result is not None:
            return Report(record.result)
        text = "the agent was restarted while the script ran, and does not run it again"
        return Conclude(ScaleResult(request.uid, FAILED_CODE, text))
    obstacle = _find_obstacle(request, roster) or describe_busy(busy)
    if not obstacle:
        return StartScript(request) if request.script else Conclude(ScaleResult(request.uid, 0))
    if waited_seconds < request.timeout_seconds:
        return Wait(obstacle)
    text = f"after {request.timeout_seconds} s {obstacle}"
    return Conclude(ScaleResult(request.uid, FAILED_CODE, text))


def has_members_as_asked(request: ScaleRequest, roster: Optional[Roster]) -> bool:
    """Return whether the current generation has the members that the request asks for."""
    return not _find_obstacle(request, roster)


def list_hosts(request: ScaleRequest, framework: str) -> Tuple[str, ...]:
    """List the names and addresses under which processes reach the workers of a request."""
    names = (build_pod_name(framework, request.role, index) for index in request.indexes)
    return (*names, *request.hosts)


def render_argument(request: ScaleRequest, framework: str) -> str:
    """Render the argument of the script: ``POD:SLOTS,...``, as the original."""
    return ",".join(
        f"{build_pod_name(framework, request.role, index)}:{request.slots}"
        for index in request.indexes
    )


def describe_busy(busy: Sequence[str]) -> str:
    """Describe the processes that the request waits for; "" for none."""
    if not busy:
        return ""
    return f"processes of leaving workers run: {join_names(busy[:_MAX_NAMED], len(busy))}"


def _find_obstacle(request: ScaleRequest, roster: Optional[Roster]) -> str:
    role = None if roster is None else roster.find_role(request.role)
    members = {member.index for member in role.members} if role is not None else set()
    asked = set(request.indexes)
    wrong = sorted(asked & members if request.is_scale_in else asked - members)
    if not wrong:
        return ""
    names = join_names([f"{request.role}/{i}" for i in wrong[:_MAX_NAMED]], len(wrong))
    state = "still in" if request.is_scale_in else "not yet in"
    return f"{names} {'is' if len(wrong) == 1 else 'are'} {state} the host files"
