"""What TensorFlow training code imports, so that a gang that changes continues its training.

Stands beside ``peers`` in the volume's site folder. For commands that ``run`` restarts
(FB_ON_CHANGE=restart) under MultiWorkerMirroredStrategy: all processes save one checkpoint after
the same step, and end together; the command is started again with the new TF_CONFIG::

    import peers_tensorflow

    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        strategy.cluster_resolver, checkpoint, directory,
        termination_config=peers_tensorflow.build_termination_config(),
    )
    while optimizer.iterations.numpy() < STEPS:
        handler.run(step)  # in model.fit: a callback, handler.save_checkpoint_if_preempted()

TensorFlow agrees on the step; this module says when to, and when to end.
"""

import importlib
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, List, Optional

# As shells say "ended by SIGTERM": the agent does not look at it, it has asked for the end.
_TERMINATED = 143
# Transient, to a Framework's retry policy.
_NOT_ASKED = 201
_POLL_SECONDS = 0.05


def build_termination_config(timeout: float = 600.0, **options: Any) -> Any:
    """Build the TerminationConfig; call it in the main thread. ``timeout`` is in seconds.

    SIGTERM, which the agent sends when the gang has changed, no longer ends the process: it asks
    for the checkpoint. A process whose peer was asked first has saved it too, and must not end
    before the agent asks: its Pod would end with it. It waits, at most for ``timeout``.
    """
    # No threading.Event: the handler runs in the middle of whatever the main thread does, and
    # Event.set waits for ever for the lock that an interrupted Event.wait holds.
    signals: List[int] = []

    def note_signal(number: int, _frame: Optional[FrameType]) -> None:
        signals.append(number)

    def end() -> None:
        deadline = time.monotonic() + timeout
        while not signals and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        code = _TERMINATED if signals else _NOT_ASKED
        sys.stdout.flush()
        sys.stderr.flush()
        # At once: the usual way out waits for peers that may be gone already.
        os._exit(code)

    signal.signal(signal.SIGTERM, note_signal)
    tensorflow = importlib.import_module("tensorflow")
    return tensorflow.distribute.experimental.TerminationConfig(
        termination_watcher_fn=lambda: bool(signals), exit_fn=end, **options
    )
