"""Where the API server is, and how to prove who we are."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from framework.agent.access import AccessError, parse_address
from framework.agent.discovery import load_access
from framework.agent.kubeconfig import load_kubeconfig
from framework.api import constants


def write_account(directory: Path, token: str = "account-token") -> dict[str, str]:
    directory.mkdir()
    (directory / "token").write_text(token + "\n")
    (directory / "ca.crt").write_text("PEM")
    return {"FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": str(directory)}


def write_kubeconfig(path: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://10.0.0.1", (True, "10.0.0.1", 443, "")),
        ("http://localhost:8001/", (False, "localhost", 8001, "")),
        ("https://[fd00::1]:6443/k8s/c-1", (True, "fd00::1", 6443, "/k8s/c-1")),
        ("127.0.0.1:8080", (False, "127.0.0.1", 8080, "")),
    ],
)
def test_parse_address_legal_is_taken_apart(
    address: str, expected: tuple[bool, str, int, str]
) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize(
    "address", ["", "ftp://x", "http://", "http://x:port", "http://x:70000", "http://u:p@x:80"]
)
def test_parse_address_illegal_is_refused(address: str) -> None:
    with pytest.raises(AccessError, match="KUBE_APISERVER_ADDRESS"):
        parse_address(address)


def test_load_access_in_cluster_uses_the_service_account(tmp_path: Path) -> None:
    env = write_account(tmp_path / "account")
    env.update(KUBERNETES_SERVICE_HOST="fd00::1", KUBERNETES_SERVICE_PORT="443")
    access = load_access(env)
    assert access.address == "https://[fd00::1]:443"
    assert access.read_token() == "account-token"
    assert access.ca_file.endswith("ca.crt")
    assert access.verify


def test_load_access_token_rotated_is_read_anew(tmp_path: Path) -> None:
    env = write_account(tmp_path / "account")
    access = load_access({**env, "KUBE_APISERVER_ADDRESS": "http://127.0.0.1:1"})
    (tmp_path / "account" / "token").write_text("second")
    assert access.read_token() == "second"
    (tmp_path / "account" / "token").unlink()
    assert access.read_token() == ""


def test_load_access_address_overrides_the_kubeconfigs_server(tmp_path: Path) -> None:
    path = write_kubeconfig(
        tmp_path / "config", cluster={"server": "https://one:1"}, user={"token": "t"}
    )
    env = {"KUBECONFIG": str(path), "KUBE_APISERVER_ADDRESS": "http://two:2"}
    assert load_access(env).address == "http://two:2"
    assert load_access(env).read_token() == "t"


def test_load_access_home_has_a_kubeconfig_is_used(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube" / "config", cluster={"server": "http://h:1"}, user={})
    env = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "absent")}
    assert load_access(env).host == "h"


def test_load_access_nothing_names_the_settings() -> None:
    with pytest.raises(AccessError, match="KUBECONFIG"):
        load_access({})


def test_load_kubeconfig_inline_and_relative_files(tmp_path: Path) -> None:
    path = write_kubeconfig(
        tmp_path / "config",
        cluster={
            "server": "https://x:1",
            "certificate-authority-data": base64.b64encode(b"CA").decode(),
            "tls-server-name": "kubernetes",
        },
        user={"client-certificate": "me.crt", "client-key": "/keys/me.key"},
    )
    access = load_kubeconfig(str(path), "")
    assert access.ca_pem == "CA"
    assert access.server_name == "kubernetes"
    assert access.client_cert_file == str(tmp_path / "me.crt")
    assert access.client_key_file == "/keys/me.key"


def test_load_kubeconfig_yaml_is_read(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x:1', insecure-skip-tls-verify: true}}]\n"
    )
    access = load_kubeconfig(str(tmp_path / "config"), "")
    assert not access.verify
    assert access.read_token() == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[1]", "no mapping", id="list"),
        pytest.param("{a: [", "no YAML", id="broken"),
        pytest.param("current-context: y", "current-context", id="no-context"),
    ],
)
def test_load_kubeconfig_broken_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(AccessError, match=message):
        load_kubeconfig(str(tmp_path / "config"), "")


def test_load_kubeconfig_plugin_is_refused(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "c", cluster={"server": "http://x:1"}, user={"exec": {}})
    with pytest.raises(AccessError, match="plugin"):
        load_kubeconfig(str(path), "")


def test_build_tls_context_broken_ca_is_told(tmp_path: Path) -> None:
    env = write_account(tmp_path / "account")
    access = load_access({**env, "KUBE_APISERVER_ADDRESS": "https://127.0.0.1:1"})
    with pytest.raises(AccessError, match=r"ca\.crt"):
        access.build_tls_context()


def test_load_access_with_a_named_service_account_ignores_a_persons_kubeconfig(
    tmp_path: Path,
) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("no kubeconfig at all")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("of-the-pod")
    access = load_access(
        {
            "HOME": str(tmp_path),
            "KUBE_APISERVER_ADDRESS": "http://127.0.0.1:8001",
            "FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": str(account),
        }
    )
    assert (access.port, access.read_token()) == (8001, "of-the-pod")


def test_load_access_in_a_pod_ignores_the_kubeconfig_of_a_mounted_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper runs in users' images, many of which mount the home of a person."""
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube" / "config", cluster={"server": "http://h:1"}, user={})
    write_account(tmp_path / "account")
    monkeypatch.setattr(constants, "SERVICE_ACCOUNT_DIR", str(tmp_path / "account"))
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    access = load_access({**pod, "HOME": str(tmp_path)})
    assert (access.host, access.read_token()) == ("10.0.0.1", "account-token")
    named = {"KUBECONFIG": str(tmp_path / ".kube" / "config")}
    assert load_access({**pod, **named, "HOME": "/nonexistent"}).host == "h"
    (tmp_path / "account" / "token").unlink()
    assert load_access({**pod, "HOME": str(tmp_path)}).host == "h"
