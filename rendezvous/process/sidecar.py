"""The loop of an agent until the containers it serves have ended, for ``watch`` and ``run``.

1. End if the ``Ending`` is over. If that cannot be read now, log it once and go on.
2. Take a turn of the agent, which waits for a change for at most 1 s.
3. After any error of the turn: log it once, and pause for 1 s.

Invariants: no error ends the loop, because in a Pod of restartPolicy Never any exit code but 0
turns a succeeded Pod into a failed one; after an error the last good generation is current.

Example: the volume is full when the agent writes generation 4. The turn raises OSError, the loop
logs one line, and processes go on with generation 3. The loop tries again each second. When the
volume has room, generation 4 becomes current, and processes are notified of it.
"""

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.agent import Agent
from rendezvous.process.ending import Ending

_PAUSE_SECONDS = 1.0


def run_sidecar(agent: Agent, ending: Ending, reporter: LineReporter, clock: AgentClock) -> None:
    """Run ``agent`` until ``ending``."""
    while not _is_over(ending, reporter):
        try:
            agent.turn()
        except OSError as e:
            reporter.say_once(f"the volume cannot be written, trying again: {e}", "error")
            clock.sleep(_PAUSE_SECONDS)
        except Exception as e:  # noqa: BLE001  (a bug here must not fail the Pod)
            reporter.say_once(f"a bug of the agent, trying again: {type(e).__name__}: {e}", "error")
            clock.sleep(_PAUSE_SECONDS)


def _is_over(ending: Ending, reporter: LineReporter) -> bool:
    try:
        return ending.is_over()
    except OSError as e:
        reporter.say_once(f"cannot find out whether to end, trying again: {e}", "warning")
        return False
