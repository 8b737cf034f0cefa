"""Callbacks that report progress, for Keras, PyTorch Lightning and the Trainer of Transformers.

They import none of these libraries. Each has the hooks that its library calls, does nothing in all
other hooks, and is an instance of the library's callback class if the library is already loaded.
Evaluations and checkpoints that the library announces are declared as pauses, of at most
``pause_seconds``. When the training ends, also early, the last step is reported as the total.
"""

import contextlib
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from .steps import pause, progress

_PAUSE_SECONDS = 1800.0
_HOOKS = ("on_", "set_", "setup", "teardown")


class _Callback:
    # Modules and names of the library's callback class; the first loaded module counts.
    _bases: Tuple[Tuple[str, str], ...] = ()

    def __new__(cls, *_: Any, **__: Any) -> Any:
        for module, name in cls._bases:
            base = getattr(sys.modules.get(module), name, None)
            if isinstance(base, type) and not issubclass(cls, base):
                return object.__new__(type(cls.__name__, (cls, base), {}))
        return object.__new__(cls)

    def __init__(self, pause_seconds: float = _PAUSE_SECONDS) -> None:
        super().__init__()
        self._pause_seconds = pause_seconds
        self._pauses = contextlib.ExitStack()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith(_HOOKS):
            return _do_nothing
        raise AttributeError(name)

    def _begin_pause(self, name: str) -> None:
        self._pauses.close()
        self._pauses.enter_context(pause(name, self._pause_seconds))

    def _end_pause(self) -> None:
        self._pauses.close()

    def _end_training(self, step: int) -> None:
        self._end_pause()
        if step > 0:
            progress(step, step)


class KerasProgress(_Callback):
    """``model.fit(..., callbacks=[peers.KerasProgress()])``."""

    _bases = (("tf_keras.callbacks", "Callback"), ("keras.callbacks", "Callback"))

    def __init__(self, pause_seconds: float = _PAUSE_SECONDS) -> None:
        super().__init__(pause_seconds)
        self._step = 0
        self._steps: Optional[int] = None
        self._total: Optional[int] = None
        self._is_new = True

    def set_params(self, params: Optional[Dict[str, Any]]) -> None:
        """Take the number of epochs, and of steps of each."""
        params = params or {}
        self._steps, epochs = params.get("steps"), params.get("epochs")
        self._total = self._steps * epochs if self._steps and epochs else None

    def on_train_begin(self, _logs: Any = None) -> None:
        """Begin a training: the first one, a resumed one, or another one."""
        self._is_new = True

    def on_epoch_begin(self, epoch: int, _logs: Any = None) -> None:
        """Find the step at which a training begins; the steps count up over several trainings."""
        if self._is_new and self._steps:
            before = max(0, self._step - epoch * self._steps)
            self._step = epoch * self._steps + before
            if self._total is not None:
                self._total += before
        self._is_new = False

    def on_train_batch_end(self, _batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Report a step."""
        self._step += 1
        metrics = {str(name): value for name, value in (logs or {}).items()}
        for name in ("step", "total"):  # of a metric of the model, not the arguments below
            metrics.pop(name, None)
        progress(self._step, self._total, **metrics)

    def on_train_end(self, _logs: Any = None) -> None:
        """Report that no step follows."""
        self._end_training(self._step)

    def on_test_begin(self, _logs: Any = None) -> None:
        """Declare a pause for the evaluation."""
        self._begin_pause("evaluation")

    def on_test_end(self, _logs: Any = None) -> None:
        """End it."""
        self._end_pause()


class LightningProgress(_Callback):
    """``Trainer(callbacks=[peers.LightningProgress()])``."""

    _bases = (("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))
    state_key = "peers.LightningProgress"

    def state_dict(self) -> Dict[str, Any]:
        """Return nothing: the trainer keeps the step."""
        return {}

    def load_state_dict(self, _state: Dict[str, Any]) -> None:
        """Take nothing."""

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Report a step."""
        total = trainer.estimated_stepping_batches
        progress(trainer.global_step, int(total) if 0 < total < float("inf") else None)

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        """Report that no step follows."""
        self._end_training(trainer.global_step)

    def on_validation_start(self, *_: Any) -> None:
        """Declare a pause for the evaluation."""
        self._begin_pause("evaluation")

    def on_validation_end(self, *_: Any) -> None:
        """End it."""
        self._end_pause()


class TrainerProgress(_Callback):
    """``Trainer(callbacks=[peers.TrainerProgress()])`` of Transformers."""

    _bases = (("transformers", "TrainerCallback"),)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """End the pause that followed the step before."""
        self._end_pause()

    def on_step_end(self, _arguments: Any, state: Any, control: Any, **_: Any) -> None:
        """Report a step, and declare the evaluation and the checkpoint that follow it."""
        progress(state.global_step, state.max_steps if state.max_steps > 0 else None)
        if control.should_evaluate or control.should_save:
            self._begin_pause("evaluation" if control.should_evaluate else "checkpoint")

    def on_train_end(self, _arguments: Any, state: Any, *_: Any, **__: Any) -> None:
        """End the pause that followed the last step, and report that no step follows."""
        self._end_training(state.global_step)


def _do_nothing(*_: Any, **__: Any) -> None:
    """Take a hook in which nothing is reported."""
