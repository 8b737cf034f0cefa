"""The exit codes of answers of the API server."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import CliError, ExitCode
from cli.local import state
from cli.session import explained, find_cluster
from framework.kube.config import KubeConfig
from framework.kube.errors import build_api_error


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((status, ExitCode.USAGE) for status in (400, 422)),
        *((status, ExitCode.FAILED) for status in (404, 409)),
        *((status, ExitCode.UNREACHABLE) for status in (401, 403, 429, 503)),
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


@pytest.mark.parametrize(
    ("message", "code", "remedy"),
    [
        ('User "u" cannot create resource "pods"', ExitCode.UNREACHABLE, "ask for the right"),
        ("ValidatingAdmissionPolicy 'p' denied request: no", ExitCode.USAGE, "change the file"),
        ('admission webhook "w" denied the request: no', ExitCode.USAGE, "change the file"),
        ("exceeded quota: q, used: 1", ExitCode.USAGE, "a larger quota"),
    ],
    ids=["right", "policy", "webhook", "quota"],
)
def test_explained_separates_a_missing_right_from_a_refused_object(
    message: str, code: ExitCode, remedy: str
) -> None:
    config = KubeConfig(server="http://127.0.0.1:1")
    body = json.dumps({"message": message}).encode()
    error = build_api_error(403, body, retry_after=None, method="POST", path="/x")
    with pytest.raises(CliError, match=remedy) as caught, explained(config, refused=ExitCode.USAGE):
        raise error
    assert caught.value.exit_code is code


def test_kubeconfig_that_a_user_removed_names_no_local_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBE_APISERVER_ADDRESS", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    cluster = state.RunningCluster(tmp_path / "removed", tmp_path)
    monkeypatch.setattr(state, "list_running", lambda: [cluster])
    with pytest.raises(CliError, match="no cluster"):
        find_cluster(ClusterChoice())


CONTEXTS = """
clusters:
- {name: k, cluster: {server: "http://127.0.0.1:1"}}
- {name: other, cluster: {server: "http://127.0.0.1:2"}}
contexts:
- {name: c, context: {cluster: k, namespace: lab}}
- {name: d, context: {cluster: other}}
current-context: c
"""


@pytest.mark.parametrize(
    ("choice", "server", "namespace"),
    [
        (ClusterChoice(), "http://127.0.0.1:1", "lab"),
        (ClusterChoice(namespace="mine"), "http://127.0.0.1:1", "mine"),
        (ClusterChoice(context="d"), "http://127.0.0.1:2", "default"),
    ],
    ids=["current", "namespace", "context"],
)
def test_cluster_options_choose_context_and_namespace(
    choice: ClusterChoice,
    server: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "config"
    file.write_text(CONTEXTS)
    monkeypatch.delenv("KUBE_APISERVER_ADDRESS", raising=False)
    found = find_cluster(replace(choice, kubeconfig=str(file)))
    assert (found.server, found.namespace) == (server, namespace)


def test_context_that_the_kubeconfig_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    file.write_text(CONTEXTS)
    monkeypatch.delenv("KUBE_APISERVER_ADDRESS", raising=False)
    with pytest.raises(CliError, match=r"context: 'e' is not among the contexts.*: c, d"):
        find_cluster(ClusterChoice(kubeconfig=str(file), context="e"))
    monkeypatch.setenv("KUBE_APISERVER_ADDRESS", "http://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(CliError, match=r"context: .*--kubeconfig"):
        find_cluster(ClusterChoice(context="e"))


def test_unknown_context_lists_ten_contexts_the_most_similar_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "\n".join(f"- {{name: c{n:02}, context: {{cluster: k}}}}" for n in range(30))
    text = CONTEXTS.replace(
        "contexts:\n", f"contexts:\n- {{name: team-a, context: {{cluster: k}}}}\n{entries}\n"
    )
    file = tmp_path / "config"
    file.write_text(text)
    monkeypatch.delenv("KUBE_APISERVER_ADDRESS", raising=False)
    with pytest.raises(CliError) as caught:
        find_cluster(ClusterChoice(kubeconfig=str(file), context="teama"), otherwise="HINT")
    (line,) = caught.value.lines
    assert "use one of these: team-a, c, c00, " in line
    assert line.endswith("c07 and 23 more")
