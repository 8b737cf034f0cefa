"""cli.session: which exit code an answer of the API server becomes."""

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.session import explained
from framework.kube.config import KubeConfig
from framework.kube.errors import build_api_error


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ExitCode.USAGE),
        (401, ExitCode.UNREACHABLE),
        (403, ExitCode.UNREACHABLE),
        (404, ExitCode.FAILED),
        (409, ExitCode.FAILED),
        (422, ExitCode.USAGE),
        (429, ExitCode.UNREACHABLE),
        (503, ExitCode.UNREACHABLE),
    ],
)
def test_explained_gives_each_answer_its_exit_code(status: int, code: ExitCode) -> None:
    config = KubeConfig(server="http://127.0.0.1:1")
    error = build_api_error(status, b"no", retry_after=None, method="GET", path="/x")
    with pytest.raises(CliError) as caught, explained(config):
        raise error
    assert caught.value.exit_code is code
    refused = ExitCode.USAGE if code is ExitCode.FAILED else code
    with pytest.raises(CliError) as caught, explained(config, refused=ExitCode.USAGE):
        raise error
    assert caught.value.exit_code is refused
