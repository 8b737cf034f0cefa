"""controller.execute.failure_record: texts, counts and delays of failed actions."""

from datetime import timedelta

import pytest

from controller.core.snapshot import Failure
from controller.execute.failure_record import FailureHistory, build_failure
from framework.kube.errors import AlreadyExistsError, ApiError, KubeError, UnreachableError
from tests.support.builders import at

NOW = at(100)
FIRST = FailureHistory(known=None, former_count=0, others=0)


def build_refusal(
    error: type[ApiError] = ApiError, retry_after: float | None = None, message: str = "no"
) -> ApiError:
    return error(
        status=403,
        reason="Forbidden",
        message=message,
        body={"kind": "Status", "message": message},
        retry_after_seconds=retry_after,
        method="POST",
        path="pods",
    )


def fail(error: KubeError, history: FailureHistory = FIRST, found_uid: str = "") -> Failure:
    return build_failure(error, history, found_uid, NOW)


def repeat(failure: Failure) -> FailureHistory:
    return FailureHistory(failure, former_count=0, others=1)


def test_failure_of_a_refused_request_has_the_answer() -> None:
    failure = fail(build_refusal())
    assert (failure.code, failure.message) == (403, "no")
    assert failure.body == '{"ErrStatus":{"message":"no"}}'
    assert failure.failed_at == NOW


def test_failure_without_an_answer_has_code_zero_and_no_body() -> None:
    failure = fail(UnreachableError("reset", method="POST", path="pods"))
    assert (failure.code, failure.body) == (0, "")
    assert failure.is_unknown


def test_delay_doubles_until_its_maximum() -> None:
    failure, delays = fail(build_refusal()), []
    for _ in range(9):
        delays.append((failure.not_before - NOW).total_seconds())
        failure = fail(build_refusal(), repeat(failure))
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


@pytest.mark.parametrize(("retry_after", "delay"), [(0.1, 0.5), (7.0, 7.0)])
def test_delay_is_at_least_retry_after(retry_after: float, delay: float) -> None:
    failure = fail(build_refusal(retry_after=retry_after))
    assert failure.not_before == NOW + timedelta(seconds=delay)


def test_consecutive_failures_continue_those_of_a_former_attempt() -> None:
    failure = fail(build_refusal(), FailureHistory(None, former_count=4, others=0))
    assert (failure.count, failure.consecutive_failures) == (1, 5)
    assert fail(build_refusal(), repeat(failure)).consecutive_failures == 6


def test_texts_of_many_failures_share_their_room() -> None:
    error = build_refusal(message="x" * 100_000)
    assert len(fail(error).message) == 100_000
    many = FailureHistory(None, former_count=0, others=20_000)
    assert len(fail(error, many).message) <= 1024


def test_message_of_a_used_name_has_the_uid_of_its_object() -> None:
    assert fail(build_refusal(AlreadyExistsError), found_uid="u-9").message.endswith("UID is u-9")
    assert "UID" not in fail(build_refusal(), found_uid="u-9").message
