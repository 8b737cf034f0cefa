"""``watch``: the sidecar, for as long as the containers it serves.

Once it has started it ends only with 0: in a Pod of restartPolicy Never any other code would turn a
succeeded Pod into a failed one. So whatever goes wrong is said and tried again, with the last good
generation in force.
"""

from framework.agent.clock import AgentClock
from rendezvous.agent import Agent
from rendezvous.process.ending import Ending
from rendezvous.report import Reporter

_PAUSE_SECONDS = 1.0


class Sidecar:
    """The loop."""

    def __init__(self, agent: Agent, ending: Ending, reporter: Reporter, clock: AgentClock) -> None:
        """Run ``agent`` until ``ending``."""
        self._agent = agent
        self._ending = ending
        self._reporter = reporter
        self._clock = clock

    def run(self) -> None:
        """Run to the end."""
        while not self._is_over():
            self._turn()

    def _is_over(self) -> bool:
        try:
            return self._ending.is_over()
        except OSError as e:
            self._reporter.say_once(f"whether to end is not known now: {e}", "warning")
            return False

    def _turn(self) -> None:
        try:
            self._agent.turn()
        except OSError as e:
            self._reporter.say_once(f"the volume cannot be written: {e}", "error")
            self._clock.sleep(_PAUSE_SECONDS)
        except Exception as e:  # noqa: BLE001  (a fault of ours must not fail the Pod)
            self._reporter.say_once(f"fault: {type(e).__name__}: {e}", "error")
            self._clock.sleep(_PAUSE_SECONDS)
