"""A thread of the agent that takes one turn after the other, until the program ends."""

import threading
from typing import Callable

from framework.agent.report import LineReporter


def start_turns(
    name: str,
    turn: Callable[[], object],
    reporter: LineReporter,
    rest: Callable[[], object] = lambda: None,
) -> None:
    """Start a thread that calls ``turn`` and ``rest`` again and again.

    An error of a turn is logged once, under the first word of the thread's name. It must not fail
    the Pod, and the next turn may succeed.
    """

    def run() -> None:
        while True:
            try:
                turn()
            except Exception as e:  # noqa: BLE001  (a fault of a thread would be lost)
                subject = name.partition("-")[0]
                reporter.say_once(f"{subject}: {type(e).__name__}: {e}", "error")
            rest()

    threading.Thread(target=run, name=name, daemon=True).start()
