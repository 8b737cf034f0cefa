import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.kube.config import ConfigError, KubeConfig, load_kube_config
from tests.support.builders.cases import cases

PEM = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
PEM64 = base64.b64encode(PEM.encode()).decode()

Write = Callable[..., str]
Load = Callable[[object], KubeConfig]


def document(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    name: str = "c",
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": "k", "user": "u"} | (context or {})}],
        "clusters": [{"name": "k", "cluster": cluster or {"server": "https://k:6443"}}],
        "users": [{"name": "u", "user": user or {}}],
    }


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: object, name: str = "config") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, "utf-8")
        return str(path)

    return write_file


@pytest.fixture
def load(write: Write) -> Load:
    return lambda content: load_kube_config(None, write(content), {})


@pytest.fixture
def service_account(tmp_path: Path) -> str:
    directory = tmp_path / "sa"
    directory.mkdir()
    (directory / "token").write_text("secret\n")
    (directory / "ca.crt").write_text(PEM)
    (directory / "namespace").write_text("team-a")
    return str(directory)


def test_address_argument_wins_over_the_environment() -> None:
    assert load_kube_config("http://h:8080/", None, {}) == KubeConfig(server="http://h:8080")
    env = {"KUBE_APISERVER_ADDRESS": "http://env:1"}
    assert load_kube_config("http://arg:1", None, env).server == "http://arg:1"
    assert load_kube_config(None, None, env).server == "http://env:1"


def test_file_argument_wins_over_the_environments_and_home(write: Write, tmp_path: Path) -> None:
    write(document({"server": "https://home"}), ".kube/config")
    env_file = write(document({"server": "https://env"}), "env")
    env = {"HOME": str(tmp_path), "KUBECONFIG": env_file}
    argument = write(document({"server": "https://arg"}), "arg")
    assert load_kube_config(None, argument, env).server == "https://arg"
    assert load_kube_config(None, None, env).server == "https://env"
    assert load_kube_config(None, None, {"HOME": str(tmp_path)}).server == "https://home"
    env["KUBECONFIG"] = str(tmp_path / "none")
    assert load_kube_config(None, None, env).server == "https://home"


def test_address_with_file_replaces_only_the_server(write: Write) -> None:
    path = write(document({"server": "https://k"}, {"token": "t"}, {"namespace": "n"}))
    config = load_kube_config("https://other:1", path, {})
    assert (config.server, config.token, config.namespace) == ("https://other:1", "t", "n")
    path = write(document({"insecure-skip-tls-verify": True}))
    config = load_kube_config("h:6443", path, {})
    assert (config.server, config.verify) == ("https://h:6443", False)


IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


def test_nothing_given_in_a_pod_uses_its_service_account(service_account: str) -> None:
    env = {"FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": service_account}
    token_file = f"{service_account}/token"
    assert load_kube_config(None, None, IN_POD | env) == KubeConfig(
        server="https://[fd00::1]:443",
        token_file=token_file,
        ca_file=f"{service_account}/ca.crt",
        namespace="team-a",
    )
    config = load_kube_config("http://127.0.0.1:1", None, env)
    assert (config.server, config.token_file) == ("http://127.0.0.1:1", token_file)


def test_nothing_given_and_no_token_names_every_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"KUBE_APISERVER_ADDRESS.*KUBECONFIG.*~/.kube/config"):
        load_kube_config(None, None, {})
    env = IN_POD | {"FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR": str(tmp_path)}
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        load_kube_config(None, None, env)


def test_relative_paths_are_relative_to_the_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ca", "crt", "key", "tok"):
        write(PEM, f"pki/{name}")
    path = write(
        document(
            {"server": "https://k", "certificate-authority": "pki/ca", "tls-server-name": "name"},
            {"client-certificate": "pki/crt", "client-key": "pki/key", "tokenFile": "pki/tok"},
        )
    )
    monkeypatch.chdir(tmp_path.parent)
    config = load_kube_config(None, os.path.relpath(path), {})
    directory = str(tmp_path / "pki")
    files = (config.ca_file, config.client_cert_file, config.client_key_file, config.token_file)
    assert files == tuple(f"{directory}/{name}" for name in ("ca", "crt", "key", "tok"))
    assert config.tls_server_name == "name"


def test_inline_bytes_win_over_files(load: Load) -> None:
    authority = {"certificate-authority": "missing", "certificate-authority-data": PEM64}
    user = {"client-certificate-data": PEM64, "client-key-data": PEM64}
    config = load(document({"server": "https://k"} | authority, user))
    assert (config.ca_pem, config.ca_file) == (PEM, None)
    assert (config.client_cert_pem, config.client_key_pem) == (PEM, PEM)


def test_several_files_merge_and_the_first_to_name_a_thing_wins(write: Write) -> None:
    first = write({"users": [{"name": "u", "user": {"token": "first"}}]}, "1")
    second = write(document({"server": "https://k"}, {"token": "second"}), "2")
    config = load_kube_config(None, None, {"KUBECONFIG": f"{first}:missing:{second}"})
    assert (config.server, config.token) == ("https://k", "first")


def test_exec_plugin_in_the_files_directory_gets_its_path(load: Load, tmp_path: Path) -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}
    config = load(document(user={"exec": spec}))
    assert config.exec_plugin is not None
    assert config.exec_plugin.spec["command"] == f"{tmp_path}/plugin"


def test_context_without_user_is_anonymous(load: Load) -> None:
    config = load(document(context={"user": ""}))
    assert (config.token, config.token_file, config.exec_plugin) == (None, None, None)


def test_repr_shows_no_secret(load: Load) -> None:
    secrets = {"token": "s3cret", "client-certificate-data": PEM64, "client-key-data": PEM64}
    cluster = {"server": "https://k", "proxy-url": "http://name:s3cret@proxy"}
    shown = repr(load(document(cluster, secrets)))
    assert "s3cret" not in shown
    assert "CERTIFICATE" not in shown
    spec = {"apiVersion": "v1", "command": "x", "env": [{"name": "P", "value": "s3cret"}]}
    assert "s3cret" not in repr(load(document(user={"exec": spec})))


@pytest.mark.parametrize(
    ("env", "server", "expected"),
    [
        ({"HTTPS_PROXY": "p:3128"}, "https://k:6443", "http://p:3128"),
        ({"https_proxy": "http://p"}, "https://k:6443", "http://p"),
        ({"HTTPS_PROXY": "http://p"}, "http://k:80", None),
        ({"HTTPS_PROXY": "http://p"}, "https://127.0.0.1:6443", None),
        ({"HTTPS_PROXY": "http://p"}, "https://localhost:6443", None),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": ".corp, k.x"}, "https://a.corp", None),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "corp"}, "https://notcorp", "http://p"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3", None),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "https://11.1.2.3", "http://p"),
        ({"HTTPS_PROXY": "http://p", "no_proxy": "*"}, "https://k", None),
    ],
)
def test_proxy_comes_from_the_environment(
    env: dict[str, str], server: str, expected: str | None
) -> None:
    assert load_kube_config(server, None, env).proxy_url == expected


def test_proxy_of_the_file_wins(write: Write) -> None:
    path = write(document({"server": "https://k", "proxy-url": "socks5://file"}))
    config = load_kube_config(None, path, {"HTTPS_PROXY": "http://p"})
    assert config.proxy_url == "socks5://file"


def cluster(**fields: object) -> dict[str, Any]:
    """A kubeconfig with these fields of its cluster; ``_`` stands for ``-``."""
    named = {key.replace("_", "-"): value for key, value in fields.items()}
    return document({"server": "https://k"} | named)


def plugin(**fields: object) -> dict[str, Any]:
    return document(user={"exec": {"command": "p", "apiVersion": "v1"} | fields})


@cases(
    "content expected",
    {
        "bad YAML": ("a: [", r"not valid YAML at line \d+.*write valid YAML or JSON"),
        "list": ("- a", "no mapping at the top"),
        "empty": ("", r"current-context: not set; run `kubectl config"),
        "context not found": (
            document() | {"current-context": "nope"},
            r"current-context: 'nope' is not among the contexts.*use one of these: c",
        ),
        "cluster not found": (
            document(context={"cluster": "x"}),
            r"contexts\[c\].cluster: 'x' is not among the clusters.*: k",
        ),
        "user not found": (
            document(context={"user": "x"}),
            r"contexts\[c\].user: 'x' is not among the users",
        ),
        "no server": (
            document({"insecure-skip-tls-verify": True}),
            r"clusters\[k\].server: not set; write https://HOST:PORT",
        ),
        "ftp": (cluster(server="ftp://k"), "server: 'ftp://k' is not the address"),
        "bad port": (cluster(server="https://k:p"), "is not the address"),
        "no host": (cluster(server="https://"), "is not the address"),
        "number": (cluster(server=1), r"server: not a string; put it in"),
        "CA missing": (
            cluster(certificate_authority="missing.pem"),
            r"certificate-authority: cannot read .*missing.pem: No such file",
        ),
        "CA not base64": (
            cluster(certificate_authority_data="%%"),
            r"certificate-authority-data: not PEM text in base64",
        ),
        "insecure with CA": (
            cluster(certificate_authority_data=PEM64, insecure_skip_tls_verify=True),
            "together with a certificate authority; remove one",
        ),
        "certificate without key": (
            document(user={"client-certificate-data": PEM64}),
            "set both client-certificate and client-key",
        ),
        "token file missing": (
            document(user={"tokenFile": "missing"}),
            r"users\[u\].tokenFile: cannot read",
        ),
        "auth provider": (
            document(user={"auth-provider": {"name": "gcp"}}),
            r"auth-provider: .*use an exec plugin",
        ),
        "basic": (
            document(user={"username": "a", "password": "s3cret"}),
            r"username: .*use a token",
        ),
        "exec": (document(user={"exec": {"apiVersion": "v1"}}), r"exec.command: not set"),
        "exec args": (plugin(args=["-n", 1]), r"exec.args: not a list of strings"),
        "exec env": (plugin(env=[{"name": "A"}]), r"exec.env: not a list of name and value"),
        "section": ({"clusters": {}, "users": {"a": 1}}, "users: not a list"),
        "no name": ({"users": [{"user": {}}]}, r"users\[0\]: has no name"),
    },
)
def test_broken_file_raises_naming_field_and_remedy(
    content: object, expected: str, write: Write
) -> None:
    path = write(content)
    with pytest.raises(ConfigError, match=expected) as caught:
        load_kube_config(None, path, {})
    assert "s3cret" not in str(caught.value)
    assert all((caught.value.field, caught.value.problem, caught.value.remedy))


def test_missing_or_binary_file_of_an_argument_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="/nowhere/config: no such kubeconfig file"):
        load_kube_config(None, "/nowhere/config", {})
    (tmp_path / "config").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_kube_config(None, str(tmp_path / "config"), {})
