"""The final Status of a program that ran in a container: its exit code, or the reason."""

from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.start.channel import read_exit_code


def build_status(message: object, reason: str, code: str = "") -> dict[str, Any]:
    causes = [{"reason": "ExitCode", "message": code}] if code else []
    status = {"status": "Failure", "reason": reason, "details": {"causes": causes}}
    return status if message is None else {**status, "message": message}


def test_program_that_succeeded_has_code_0() -> None:
    assert read_exit_code({"status": "Success"}) == 0


def test_program_that_ended_has_its_code_without_a_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert read_exit_code(build_status("ended with 3", "NonZeroExitCode", "3")) == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("message", "shown"),
    [("no such file", "no such file"), (None, "the server gives no reason"), (5, "5")],
)
def test_program_that_did_not_start_has_its_reason(
    message: object, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_exit_code(build_status(message, "InternalError", "126")) == 126
    assert capsys.readouterr().err == f"error: {shown}\n"
    with pytest.raises(CliError, match=shown) as caught:
        read_exit_code(build_status(message, "InternalError"))
    assert caught.value.exit_code is ExitCode.FAILED


def test_broken_connection_says_that_the_program_may_still_run() -> None:
    with pytest.raises(CliError, match="may still run") as caught:
        read_exit_code(None)
    assert caught.value.exit_code is ExitCode.UNREACHABLE
