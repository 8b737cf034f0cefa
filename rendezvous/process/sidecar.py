"""``watch``: the sidecar, for as long as the containers it serves.

Once it has started it ends only with 0: in a Pod of restartPolicy Never any other code would turn a
succeeded Pod into a failed one. So whatever goes wrong is said and tried again, with the last good
generation in force.
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
            reporter.say_once(f"the volume cannot be written: {e}", "error")
            clock.sleep(_PAUSE_SECONDS)
        except Exception as e:  # noqa: BLE001  (a fault of ours must not fail the Pod)
            reporter.say_once(f"fault: {type(e).__name__}: {e}", "error")
            clock.sleep(_PAUSE_SECONDS)


def _is_over(ending: Ending, reporter: LineReporter) -> bool:
    try:
        return ending.is_over()
    except OSError as e:
        reporter.say_once(f"whether to end is not known now: {e}", "warning")
        return False
