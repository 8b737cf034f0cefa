"""Test processes do not share a real API server: a controller of one would act in the others."""

import pytest

from tests.support.servers.controlplane import USE_KUBECONFIG_ENV, Access
from tests.support.servers.realserver import PROCESSES_ENV, leave_out_shared

SHARED = Access(
    url="https://127.0.0.1:1", token="secret", ca_file=None, kubeconfig="config", kubectl=None
)


@pytest.mark.parametrize("processes", [{}, {PROCESSES_ENV: "1"}], ids=["no -n", "-n 1"])
def test_only_process_uses_the_server_of_the_environment(processes: dict[str, str]) -> None:
    env = leave_out_shared({**SHARED.to_env(), **processes})

    assert Access.from_env(env) == SHARED


def test_one_of_several_processes_does_not_use_the_server_of_the_environment() -> None:
    env = leave_out_shared({**SHARED.to_env(), PROCESSES_ENV: "2", "HOME": "/home/user"})

    assert Access.from_env(env) is None
    assert env["HOME"] == "/home/user"


def test_several_processes_may_not_share_an_existing_cluster() -> None:
    with pytest.raises(pytest.fail.Exception, match="run pytest without -n"):
        leave_out_shared({USE_KUBECONFIG_ENV: "1", PROCESSES_ENV: "2"})
