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

    An error of a turn is logged once, under ``name``, the name of the thread. It must not fail the
    Pod, and the next turn may succeed.
    """

    def run() -> None:
        while True:
            try:
                turn()
            except Exception as e:  # noqa: BLE001  (a fault of a thread would be lost)
                reporter.say_once(f"{name}: {type(e).__name__}: {e}", "error")
            rest()

    threading.Thread(target=run, name=name, daemon=True).start()
