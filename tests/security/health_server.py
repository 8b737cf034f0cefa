"""A program with the controller's health endpoint, for attacks: ``python -m ... DESCRIPTORS``.

It prints its port. Its readiness check opens files as requests to the API server would, and says
"no descriptor left" when it cannot. No connection reaches its deadline: what keeps the port usable
are the limits of the number of connections.
"""

import asyncio
import os
import resource
import sys
from dataclasses import replace

from controller.serve.health import HealthServer
from controller.serve.health_connections import HealthLimits
from controller.serve.metrics import Metrics
from tests.support.waiting import HANG_SECONDS

WANTED_DESCRIPTORS = 64


def find_unready() -> list[str]:
    opened = []
    try:
        opened += [os.open(os.devnull, os.O_RDONLY) for _ in range(WANTED_DESCRIPTORS)]
    except OSError:
        return ["no descriptor left"]
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return []


async def main() -> None:
    limits = replace(HealthLimits.by_descriptors(), seconds=2.0 * HANG_SECONDS)
    server = HealthServer(
        "127.0.0.1", 0, find_unready=find_unready, metrics=Metrics(), limits=limits
    )
    async with server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    asyncio.run(main())
