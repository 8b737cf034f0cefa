"""Which tests may be skipped: in CI, no check is left out in silence (tests/conftest.py)."""

from collections.abc import Mapping

CI_ENV = "CI"
RECORDINGS_ENV = "DIFFTEST_DIR"
# With these words begins the reason of a test that would have nothing to test on this machine ...
DOES_NOT_APPLY = "does not apply: "
# ... and of one that compares with recordings of the original, which are not in this repository.
NO_RECORDINGS = "no recordings of the original: "


def is_ci(env: Mapping[str, str]) -> bool:
    """Return whether this is a run in CI, where nothing may be skipped for lack of a program."""
    return env.get(CI_ENV, "").lower() in {"1", "true"}


def find_forbidden_skip(reason: str, env: Mapping[str, str]) -> str | None:
    """Find why a test that was skipped has failed; None if it may be skipped.

    In CI a test is skipped only if it ``DOES_NOT_APPLY``, or if it needs recordings of the
    original and CI does without (``DIFFTEST_DIR=none``).
    """
    reason = reason.removeprefix("Skipped: ")
    if not is_ci(env) or reason.startswith(DOES_NOT_APPLY):
        return None
    if reason.startswith(NO_RECORDINGS) and env.get(RECORDINGS_ENV) == "none":
        return None
    return f"{reason}; with {CI_ENV}=true no test is skipped for that"
