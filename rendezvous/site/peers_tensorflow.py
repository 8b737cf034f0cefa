"""For TensorFlow training code: a gang that changes continues its training.

The module is beside ``peers`` in the volume's site folder. It is for commands that ``run`` restarts
(FB_ON_CHANGE=restart) under MultiWorkerMirroredStrategy: all processes save one checkpoint after
the same step, and end together; ``run`` starts the command again with the new TF_CONFIG::

    import peers_tensorflow

    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        strategy.cluster_resolver, checkpoint, directory,
        termination_config=peers_tensorflow.build_termination_config(),
    )
    while optimizer.iterations.numpy() < STEPS:
        handler.run(step)  # in model.fit: a callback, handler.save_checkpoint_if_preempted()

TensorFlow agrees on the step. This module starts that agreement, and ends the process afterwards.
"""

import importlib
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, List, Optional

# The code of shells for "ended by SIGTERM". The agent ignores it, because it has sent SIGTERM.
_TERMINATED = 143
# A transient failure for the retry policy of a Framework.
_NOT_ASKED = 201
_POLL_SECONDS = 0.05


def build_termination_config(timeout: float = 600.0, **options: Any) -> Any:
    """Build the TerminationConfig; call it in the main thread. ``timeout`` is in seconds.

    The agent sends SIGTERM when the gang has changed. It no longer ends the process, but requests
    the checkpoint. A process whose peer got SIGTERM first saves the checkpoint, too, and must not
    end before its own SIGTERM: its Pod would end. It waits for SIGTERM, at most for ``timeout``.
    """
    # No threading.Event: the handler interrupts the main thread, and Event.set would wait for ever
    # for the lock that an interrupted Event.wait holds.
    signals: List[int] = []

    def remember_signal(number: int, _frame: Optional[FrameType]) -> None:
        signals.append(number)

    def end() -> None:
        deadline = time.monotonic() + timeout
        while not signals and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        code = _TERMINATED if signals else _NOT_ASKED
        sys.stdout.flush()
        sys.stderr.flush()
        # At once: the normal exit of the interpreter waits for peers that may be gone already.
        os._exit(code)

    signal.signal(signal.SIGTERM, remember_signal)
    tensorflow = importlib.import_module("tensorflow")
    return tensorflow.distribute.experimental.TerminationConfig(
        termination_watcher_fn=lambda: bool(signals), exit_fn=end, **options
    )
