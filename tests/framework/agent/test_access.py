import base64
import json
from pathlib import Path
from typing import Any

import pytest

from framework.agent.access import AccessError, parse_address
from framework.agent.discovery import load_access
from framework.agent.kubeconfig import load_kubeconfig
from framework.api import constants
from tests.support.builders.cases import cases

IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


def write_account(directory: Path) -> dict[str, str]:
    directory.mkdir()
    (directory / "token").write_text("account-token\n")
    (directory / "ca.crt").write_text("PEM")
    return {"FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": str(directory)}


def render_kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> str:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    return json.dumps(config)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose kubeconfig names the server h."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(render_kubeconfig({"server": "http://h:1"}, {}))
    return tmp_path


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
    "address",
    [
        "", "ftp://x", "http://", "http://x:port", "http://x:70000", "http://u:p@x:80",
        "http://x:²", f"http://x:{'9' * 5000}",
    ],
    ids=["none", "scheme", "no host", "word", "too high", "user", "superscript", "5000 digits"],
)  # fmt: skip
def test_parse_address_illegal_is_refused(address: str) -> None:
    with pytest.raises(AccessError, match="KUBE_APISERVER_ADDRESS"):
        parse_address(address)


def test_load_access_in_cluster_uses_the_current_token_of_the_service_account(
    tmp_path: Path,
) -> None:
    access = load_access({**write_account(tmp_path / "account"), **IN_POD})
    assert access.address == "https://[fd00::1]:443"
    assert access.read_token() == "account-token"
    assert access.ca_file.endswith("ca.crt")
    assert access.verify
    (tmp_path / "account" / "token").write_text("second")
    assert access.read_token() == "second"
    (tmp_path / "account" / "token").unlink()
    assert access.read_token() == ""


def test_load_access_address_overrides_the_kubeconfigs_server(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(render_kubeconfig({"server": "https://one:1"}, {"token": "t"}))
    env = {"KUBECONFIG": str(path), "KUBE_APISERVER_ADDRESS": "http://two:2"}
    assert load_access(env).address == "http://two:2"
    assert load_access(env).read_token() == "t"


def test_load_access_without_the_named_kubeconfig_reads_that_of_the_home(home: Path) -> None:
    env = {"HOME": str(home), "KUBECONFIG": str(home / "absent")}
    assert load_access(env).host == "h"


def test_load_access_nothing_names_the_settings() -> None:
    with pytest.raises(AccessError, match="KUBECONFIG"):
        load_access({})


def test_load_kubeconfig_inline_and_relative_files(tmp_path: Path) -> None:
    authority = base64.b64encode(b"CA").decode()
    cluster = {"certificate-authority-data": authority, "tls-server-name": "kubernetes"}
    user = {"client-certificate": "me.crt", "client-key": "/keys/me.key"}
    path = tmp_path / "config"
    path.write_text(render_kubeconfig({"server": "https://x:1", **cluster}, user))
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


@cases(
    "text message",
    {
        "list": ("[1]", "not a mapping"),
        "broken": ("{a: [", "not valid YAML"),
        "no context": ("current-context: y", "current-context"),
        "plugin": (render_kubeconfig({"server": "http://x:1"}, {"exec": {}}), "plugin"),
    },
)
def test_load_kubeconfig_broken_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(AccessError, match=message):
        load_kubeconfig(str(tmp_path / "config"), "")


def test_build_tls_context_broken_ca_names_its_file(tmp_path: Path) -> None:
    access = load_access({**write_account(tmp_path / "account"), **IN_POD})
    with pytest.raises(AccessError, match=r"ca\.crt"):
        access.build_tls_context()


def test_load_access_with_a_named_service_account_ignores_the_kubeconfig_of_the_home(
    tmp_path: Path, home: Path
) -> None:
    (home / ".kube" / "config").write_text("no kubeconfig at all")
    env = write_account(tmp_path / "account")
    env.update(HOME=str(home), KUBE_APISERVER_ADDRESS="http://127.0.0.1:8001")
    access = load_access(env)
    assert (access.port, access.read_token()) == (8001, "account-token")


def test_load_access_in_a_pod_ignores_the_kubeconfig_of_a_mounted_home(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper runs in images of users, many of which mount the home of a person."""
    write_account(tmp_path / "account")
    monkeypatch.setattr(constants, "SERVICE_ACCOUNT_DIR", str(tmp_path / "account"))
    in_pod = {**IN_POD, "HOME": str(home)}
    access = load_access(in_pod)
    assert (access.host, access.read_token()) == ("fd00::1", "account-token")
    named = {"KUBECONFIG": str(home / ".kube" / "config")}
    assert load_access({**in_pod, **named, "HOME": "/nonexistent"}).host == "h"
    (tmp_path / "account" / "token").unlink()
    assert load_access(in_pod).host == "h"
