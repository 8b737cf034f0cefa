import json

import pytest

from framework.kube import errors
from framework.kube.errors import ApiError, UnreachableError, build_api_error, build_event_error
from tests.framework.kube.scripted import status_object


def build(status: int, raw: bytes = b"", retry_after: str | None = None) -> ApiError:
    return build_api_error(status, raw, method="GET", path="/x", retry_after=retry_after)


@pytest.mark.parametrize(
    ("status", "reason", "expected", "is_transient"),
    [
        (400, "BadRequest", errors.BadRequestError, False),
        (401, "Unauthorized", errors.UnauthorizedError, False),
        (403, "Forbidden", errors.ForbiddenError, False),
        (404, "NotFound", errors.NotFoundError, False),
        (409, "AlreadyExists", errors.AlreadyExistsError, False),
        (409, "Conflict", errors.ConflictError, False),
        (410, "Expired", errors.GoneError, False),
        (413, "RequestEntityTooLarge", errors.TooLargeError, False),
        (418, "Teapot", ApiError, False),
        (422, "Invalid", errors.InvalidError, False),
        (429, "TooManyRequests", errors.TooManyRequestsError, True),
        (500, "InternalError", errors.ServerError, True),
        (503, "ServiceUnavailable", errors.ServerError, True),
        (504, "Timeout", errors.ServerError, True),
    ],
)
def test_build_api_error_of_status_gives_its_class(
    status: int, reason: str, expected: type[ApiError], *, is_transient: bool
) -> None:
    error = build(status, json.dumps(status_object(status, reason, "why")).encode())
    assert type(error) is expected
    assert (error.status, error.reason, error.message) == (status, reason, "why")
    assert error.is_transient is is_transient
    assert error.body is not None
    assert error.body["reason"] == reason
    assert str(error) == f"GET /x: {status} {reason}: why"


@pytest.mark.parametrize("raw", [b"<html>bad gateway</html>", b"", b"[1]", b"\xff\xfe", b'{"a'])
def test_build_api_error_of_a_proxys_page_keeps_the_start_of_its_text(raw: bytes) -> None:
    error = build(502, raw)
    assert type(error) is errors.ServerError
    assert error.body is None
    assert error.message == raw.decode("utf-8", "replace")
    assert len(build(500, b"x" * 10**6).message) == 1000


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("3", None, 3.0),
        ("0", None, 0.0),
        (None, {"retryAfterSeconds": 7}, 7.0),
        ("3", {"retryAfterSeconds": 7}, 3.0),
        ("86400", None, 300.0),
        (None, None, None),
        (None, "odd", None),
        ("-1", None, None),
        ("inf", None, None),
        ("nan", None, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None, None),
    ],
)
def test_retry_after_is_read_from_header_then_details(
    header: str | None, details: object, expected: float | None
) -> None:
    body = {**status_object(429, "TooManyRequests"), "details": details}
    assert build(429, json.dumps(body).encode(), header).retry_after_seconds == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (status_object(410, "Expired"), errors.GoneError),
        ({}, errors.ServerError),
        ({"code": "410"}, errors.ServerError),
        ({"code": True}, errors.ServerError),
        ({"code": None}, errors.ServerError),
    ],
)
def test_build_event_error_without_a_code_is_an_error_of_the_server(
    status: dict[str, object], expected: type[ApiError]
) -> None:
    error = build_event_error(status, method="WATCH", path="/x")
    assert type(error) is expected
    assert error.is_transient is (expected is errors.ServerError)


def test_unreachable_is_transient() -> None:
    assert UnreachableError("gone", method="GET", path="/x").is_transient
