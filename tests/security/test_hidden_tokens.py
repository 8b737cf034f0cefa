"""No program shows the token of an address, in whatever way the server fails.

The kubeconfig of a local cluster has its token in the path of the server's URL; other kubeconfigs
have a user and a password in it. Each program is run as a process.
"""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from framework.agent.access import Access, parse_address
from framework.agent.clock import AgentClock
from framework.agent.connection import Connection, UnreachableError
from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import KubeError
from tests.rendezvous.gangs import INSTANCE
from tests.security.failing_server import MODES, serve
from tests.support.builders import build_submission
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.frameworkcrd import ROOT
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS, wait_until

SECRET = "s3cret-0123456789abcdef"
PROGRAMS = {
    "barrier": ["-m", "barrier"],
    "rendezvous": ["-m", "rendezvous", "watch"],
    "controller": ["-m", "controller", "--health-port", "0", "--log-level", "debug"],
    "run": ["-m", "cli.main", "run", "gang.yaml"],
    "logs": ["-m", "cli.main", "logs", "gang"],
}
# It writes little, because it shares the output of the training.
QUIET = "rendezvous"
# Each other program writes one of these once it has met the server.
WRITTEN = ("127.0.0.1", "HTTP ", "API server", "error", "hidden")


def build_env(folder: Path, address: str, *, in_file: bool) -> dict[str, str]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        constants.WORKING_DIR_ENV: str(folder / "work"),
        constants.TERMINATION_LOG_ENV: str(folder / "termination"),
        constants.FRAMEWORK_NAMESPACE: "default",
        constants.FRAMEWORK_NAME: "gang",
        constants.CONFIGMAP_NAME: "gang-attempt",
        constants.CONFIGMAP_UID: INSTANCE.partition("_")[2],
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: INSTANCE,
        constants.TASKROLE_NAME: "worker",
        constants.TASK_INDEX: "0",
        constants.TASK_ATTEMPT_ID: "0",
        constants.POD_NAME: "gang-worker-0",
        constants.POD_UID: "pod-uid",
    }
    if not in_file:
        return {**env, constants.KUBE_APISERVER_ADDRESS_ENV: address}
    kubeconfig = folder / "kubeconfig"
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": address}}],
        "users": [{"name": "x", "user": {"token": SECRET}}],
    }
    kubeconfig.write_text(json.dumps(content))
    return {**env, constants.KUBECONFIG_ENV: str(kubeconfig)}


def read_output(folder: Path) -> str:
    return (folder / "output").read_text() + (folder / "termination").read_text()


def has_written(child: ChildProcess) -> bool:
    text = child.log.read_text()
    return not child.is_running() or ("\n" in text and any(word in text for word in WRITTEN))


def run_all(folder: Path, address: str, *, in_file: bool) -> dict[str, str]:
    """Run all programs until each has written about the server; return their outputs."""
    children = {}
    for name, words in PROGRAMS.items():
        path = folder / name
        path.mkdir()
        (path / "termination").touch()
        (path / "gang.yaml").write_text(json.dumps(build_submission("gang")))
        command = [sys.executable, *(str(path / w) if w == "gang.yaml" else w for w in words)]
        env = build_env(path, address, in_file=in_file)
        children[name] = ChildProcess(name, command, log=path / "output", env=env)
    try:
        for name, child in children.items():
            if name != QUIET:
                wait_until(lambda child=child: has_written(child))  # type: ignore[misc]  # a default is not inferred
    finally:
        for child in children.values():
            child.terminate()
    return {name: read_output(folder / name) for name in PROGRAMS}


@pytest.mark.parametrize(
    ("mode", "in_file"),
    keep_first(
        [("401", True), ("refused", False), ("403", True)]
        + [(mode, False) for mode in ("garbage", "tls", "302", "401", "403", "502")],
    ),
)
def test_program_that_fails_does_not_show_the_token_in_the_path(
    mode: str, tmp_path: Path, *, in_file: bool
) -> None:
    with serve(mode) as url:
        outputs = run_all(tmp_path, f"{url}/token/{SECRET}", in_file=in_file)
    for name, text in outputs.items():
        assert SECRET not in text, (name, text)
        assert name == QUIET or any(word in text for word in WRITTEN), (name, text)


@pytest.mark.parametrize(
    ("address", "in_file"),
    keep_first(
        [
            (f"http://user:{SECRET}@127.0.0.1:1", False),
            (f"http://user:{SECRET}@127.0.0.1:1", True),
            (f"http://127.0.0.1:1/?token={SECRET}", False),
            (f"http://user:{SECRET}/x@127.0.0.1:1", False),
            (f"http://127.0.0.1:port/{SECRET}", True),
        ]
    ),
)
def test_program_with_a_bad_address_does_not_show_the_secret_in_it(
    address: str, tmp_path: Path, *, in_file: bool
) -> None:
    outputs = run_all(tmp_path, address, in_file=in_file)
    assert not {name: text for name, text in outputs.items() if SECRET in text}


@pytest.mark.parametrize("mode", MODES)
def test_client_of_agents_does_not_report_the_token_in_the_path(mode: str) -> None:
    with serve(mode) as url:
        tls, host, port, prefix = parse_address(f"{url}/token/{SECRET}")
        access = Access(host=host, port=port, tls=tls, path_prefix=prefix, verify=False)
        with closing(Connection(access, AgentClock(), HANG_SECONDS)) as connection:
            try:
                reported = connection.fetch("GET", "/version").describe()
            except UnreachableError as e:
                reported = str(e)
    assert reported
    assert ("SSL" in reported) is (mode == "tls")
    assert SECRET not in reported


@pytest.mark.looptime(False)  # noqa: FBT003 the name is that of the plugin
@pytest.mark.parametrize("mode", MODES)
async def test_client_of_programs_does_not_report_the_token_in_the_path(mode: str) -> None:
    with serve(mode) as url:
        config = KubeConfig(server=f"{url}/token/{SECRET}", token=SECRET)
        async with KubeClient(config, user_agent="test", clock=SystemClock()) as client:
            with pytest.raises(KubeError) as caught:
                await client.get_raw("/version", timeout_seconds=HANG_SECONDS)
    assert SECRET not in str(caught.value)
