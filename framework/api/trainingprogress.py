"""How far the training of a gang is, in an annotation of the Pod of rank 0.

Written by ``run``, read by the controller. Written for Python 3.7 (agents' zipapp). Rules:
docs/design/recovery.md, "Progress in the status".

``frameworkbarrier.io/training-progress``: generation, step, total, steps per second, the slowest
rank, the number of stragglers, and the names of the first ones; ``-`` is an unknown value.
Example: ``7 41200 100000 3.25 worker/3 2 worker/3 worker/7:57``.
"""

import re
from typing import NamedTuple, Optional, Tuple

MAX_CHARS = 480
MAX_STRAGGLERS = 5
MAX_NUMBER = 10**18 - 1
_MAX_SMALL_NUMBER = 10**9 - 1
_UNKNOWN = "-"
_RANK = " rank "
_NAME = r"[a-z0-9]{1,63}/[0-9]{1,5}(?::[0-9]{1,9})?"
_SMALL = r"(?:0|[1-9][0-9]{0,8})"
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
# deploy/admission/acknowledgement.yaml has the same pattern.
PATTERN = (
    rf"([1-9][0-9]{{0,8}}) ({_NUMBER}) (-|{_NUMBER}) (-|{_SMALL}(?:\.[0-9]{{1,6}})?) "
    rf"(-|{_NAME}) ({_SMALL})((?: {_NAME}){{0,{MAX_STRAGGLERS}}})"
)
_TEXT = re.compile(PATTERN, re.ASCII)


class TrainingProgress(NamedTuple):
    """How far a gang is."""

    generation: int
    """The generation of the roster that the agent had."""
    step: int
    """The lowest step of its ranks."""
    total: Optional[int]
    """Number of steps of the whole training; None if unknown."""
    steps_per_second: Optional[float]
    """Rate of the step in the last minute; None before the step increased."""
    slowest: str
    """The rank that is behind the others; "" if none is."""
    straggler_count: int
    """Number of ranks that are much slower than the others."""
    stragglers: Tuple[str, ...]
    """Names of the first of these ranks."""


def encode_training_progress(progress: TrainingProgress) -> str:
    """Encode the annotation; numbers beyond the limits become the limits."""
    total, rate = progress.total, progress.steps_per_second
    text = " ".join(
        [
            str(min(progress.generation, _MAX_SMALL_NUMBER)),
            str(min(progress.step, MAX_NUMBER)),
            _UNKNOWN if total is None else str(min(total, MAX_NUMBER)),
            _UNKNOWN if rate is None else render_rate(rate),
            _encode_name(progress.slowest) or _UNKNOWN,
            str(min(progress.straggler_count, _MAX_SMALL_NUMBER)),
        ]
    )
    for name in progress.stragglers[:MAX_STRAGGLERS]:
        longer = f"{text} {_encode_name(name)}"
        if len(longer) > MAX_CHARS:
            break
        text = longer
    return text


def parse_training_progress(text: str) -> Optional[TrainingProgress]:
    """Parse the annotation; None if the text is invalid."""
    found = _TEXT.fullmatch(text) if len(text) <= MAX_CHARS else None
    if found is None:
        return None
    generation, step, total, rate, slowest, count, stragglers = found.groups()
    return TrainingProgress(
        generation=int(generation),
        step=int(step),
        total=None if total == _UNKNOWN else int(total),
        steps_per_second=None if rate == _UNKNOWN else float(rate),
        slowest="" if slowest == _UNKNOWN else _decode_name(slowest),
        straggler_count=int(count),
        stragglers=tuple(_decode_name(name) for name in stragglers.split()),
    )


def render_rate(steps_per_second: float) -> str:
    """Render a rate with 3 digits that count, without an exponent."""
    rounded = min(float(f"{steps_per_second:.3g}"), float(_MAX_SMALL_NUMBER))
    return f"{rounded:.6f}".rstrip("0").rstrip(".")


def _encode_name(name: str) -> str:
    return name.replace(_RANK, ":")


def _decode_name(text: str) -> str:
    return text.replace(":", _RANK)
