"""How fast this machine is now: by it, tests stretch the seconds that the docs promise.

Called by tests that would else fail wherever the cores are slower, or busy with something else.
"""

import subprocess
import sys
import time

# What it takes on the machine of the documented seconds.
_REFERENCE_SECONDS = 0.05
_STARTS = 3
_PROGRAM = "import asyncio, json, ssl"


def measure_slowness() -> float:
    """Tell how many times longer than there a program takes to start here, now; at least 1."""
    started = time.monotonic()
    for _ in range(_STARTS):
        subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
    return max(1.0, (time.monotonic() - started) / _STARTS / _REFERENCE_SECONDS)
