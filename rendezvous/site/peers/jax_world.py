"""The start of JAX for a gang."""

import importlib
import os
from typing import Any


def initialize_jax(**options: Any) -> None:
    """Call ``jax.distributed.initialize``; JAX itself reads only the first of these variables."""
    jax = importlib.import_module("jax")
    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
        cluster_detection_method="deactivate",
        **options,
    )
