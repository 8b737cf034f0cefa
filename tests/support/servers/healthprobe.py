"""How long a health port is silent: the longest time that an answer to a probe takes."""

import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.waiting import HANG_SECONDS

_PERIOD_SECONDS = 0.05


class Silence:
    """The longest silence of a health port."""

    def __init__(self, port: int) -> None:
        self.longest_seconds = 0.0
        self._url = f"http://127.0.0.1:{port}/healthz"
        self._is_over = threading.Event()

    def ask(self) -> None:
        """Ask again and again until it is over. A probe without an answer is silence, too."""
        while not self._is_over.wait(_PERIOD_SECONDS):
            started = time.monotonic()
            with suppress(OSError), urllib.request.urlopen(self._url, timeout=HANG_SECONDS):
                pass
            took = time.monotonic() - started
            self.longest_seconds = max(self.longest_seconds, took)

    def end(self) -> None:
        """Ask no more."""
        self._is_over.set()


@contextmanager
def measure_silence(port: int) -> Iterator[Silence]:
    """Measure the silence of a health port while the block runs."""
    silence = Silence(port)
    thread = threading.Thread(target=silence.ask, name="probe")
    thread.start()
    try:
        yield silence
    finally:
        silence.end()
        thread.join()
