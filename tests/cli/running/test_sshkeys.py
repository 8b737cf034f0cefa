"""The Secret with the ssh key of a TrainingJob that ``framework run`` runs."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from cli.exitcodes import CliError, ExitCode
from cli.files.manifests import Manifests, load_manifests
from cli.running.apply import apply_all
from cli.running.dryrun import show_answers, show_files
from framework.kube.client import KubeClient
from framework.kube.errors import build_api_error
from framework.kube.resources import FRAMEWORKS, SECRETS, Object
from tests.framework.kinds.jobs import build_trainingjob
from tests.support.servers.localapi import open_local_api

pytestmark = pytest.mark.local

SECRET = "arena.kubeflow.org/ssh-secret"
CREATE = "--from-file=id_rsa --from-file=id_rsa.pub --from-file=config"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of an API server without kubelet and controller."""
    async with open_local_api(tmp_path) as api:
        yield api.client


def load(tmp_path: Path, *more: Object, name: str | None = None, is_local: bool) -> Manifests:
    """Load a TrainingJob whose annotation names a Secret, and further objects."""
    job = build_trainingjob()
    job["metadata"]["namespace"] = "default"
    if name is not None:
        job["metadata"]["annotations"] = {SECRET: name}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all([job, *more]))
    return load_manifests(
        [str(file)], namespace=None, default_namespace="default", is_local=is_local
    )


def build_secret(name: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "b"}}


async def apply(
    client: KubeClient, manifests: Manifests, *, replaces: bool = False, warns: bool = False
) -> list[str]:
    """Apply; return the warnings, or else the lines about what was done."""
    said: list[str] = []
    warnings: list[str] = []
    await apply_all(client, manifests, said.append, warnings.append, replaces=replaces)
    assert not (said if warns else warnings)
    return warnings if warns else said


async def list_secrets(client: KubeClient) -> list[Object]:
    found: list[Object] = (await client.list(SECRETS, "default"))["items"]
    return found


def refuse(monkeypatch: pytest.MonkeyPatch, method: str, status: int, reason: str) -> None:
    """Let a server refuse requests about Secrets."""
    send = getattr(KubeClient, method)

    async def answer(self: KubeClient, resource: Any, *args: Any, **options: Any) -> Any:
        if resource is SECRETS:
            body = {"kind": "Status", "reason": reason, "message": "quoted PRIVATE KEY"}
            raise build_api_error(status, json.dumps(body).encode(), method="POST", path="/")
        return await send(self, resource, *args, **options)

    monkeypatch.setattr(KubeClient, method, answer)


@pytest.mark.parametrize(
    ("name", "is_local"), [(None, True), (None, False), ("mine", True)], ids=str
)
async def test_missing_secret_is_created_with_a_key_and_goes_with_the_framework(
    client: KubeClient,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    name: str | None,
    is_local: bool,  # noqa: FBT001 a parameter of the test
) -> None:
    caplog.set_level(logging.DEBUG)
    manifests = load(tmp_path, name=name, is_local=is_local)
    assert not any("Secret" in warning for warning in manifests.warnings)
    said = await apply(client, manifests)
    (secret,) = await list_secrets(client)
    shown = name or "elastic"
    assert secret["metadata"]["name"] == shown
    (line,) = said
    assert line.startswith(f"secret/{shown} created, with a new ssh key for TrainingJob elastic; ")
    framework = await client.get(FRAMEWORKS, "default", "elastic")
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Framework", framework["metadata"]["uid"])
    data = {key: base64.b64decode(text) for key, text in secret["data"].items()}
    assert set(data) == {"id_rsa", "id_rsa.pub", "config"}
    private = load_ssh_private_key(data["id_rsa"], None)
    assert load_ssh_public_key(data["id_rsa.pub"]) == private.public_key()
    output = capsys.readouterr()
    records = " ".join(str(vars(record)) for record in caplog.records)
    text = json.dumps([framework, said]) + output.out + output.err + caplog.text + records
    assert secret["data"]["id_rsa"][60:120] not in text
    assert "PRIVATE KEY" not in text


async def test_secret_of_the_file_is_used(client: KubeClient, tmp_path: Path) -> None:
    manifests = load(tmp_path, build_secret("mine"), name="mine", is_local=True)
    assert await apply(client, manifests) == []
    (secret,) = await list_secrets(client)
    assert list(secret["data"]) == ["a"]


@pytest.mark.parametrize("name", [None, "mine"])
async def test_secret_of_the_server_is_not_changed(
    client: KubeClient, tmp_path: Path, name: str | None
) -> None:
    await client.create(SECRETS, "default", build_secret(name or "elastic"))
    (before,) = await list_secrets(client)
    assert await apply(client, load(tmp_path, name=name, is_local=False)) == []
    assert await list_secrets(client) == [before]


async def test_chosen_secret_that_the_cluster_lacks_is_refused_with_the_commands(
    client: KubeClient, tmp_path: Path
) -> None:
    with pytest.raises(CliError) as caught:
        await apply(client, load(tmp_path, name="mine", is_local=False))
    text = "\n".join(caught.value.lines)
    assert f"metadata.annotations[{SECRET}]: there is no Secret 'mine' in namespace default" in text
    assert f"kubectl create secret generic mine -n default {CREATE}" in text
    assert (await client.list(FRAMEWORKS, "default"))["items"] == []


async def test_user_without_the_right_is_told_which_secret_must_exist(
    client: KubeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "create", 403, "Forbidden")
    refuse(monkeypatch, "get_metadata", 403, "Forbidden")
    for name in (None, "mine"):
        manifests = load(tmp_path, name=name, is_local=False)
        (said,) = await apply(client, manifests, replaces=True, warns=True)
        assert said.startswith("warning: ")
        assert "PRIVATE KEY" not in said
        assert f"Secret {name or 'elastic'} " in said
        assert f"kubectl create secret generic {name or 'elastic'} -n default {CREATE}" in said


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (422, "Invalid", ExitCode.USAGE),
        (429, "TooManyRequests", ExitCode.UNREACHABLE),
        (503, "ServiceUnavailable", ExitCode.UNREACHABLE),
    ],
)
async def test_refused_secret_undoes_the_framework_and_shows_no_key(
    client: KubeClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    reason: str,
    code: ExitCode,
) -> None:
    refuse(monkeypatch, "create", status, reason)
    with pytest.raises(CliError) as caught:
        await apply(client, load(tmp_path, is_local=False))
    text = "\n".join(caught.value.lines)
    assert caught.value.exit_code is code
    assert f"the API server refuses the Secret elastic: status {status}" in text
    assert "PRIVATE KEY" not in text
    assert (await client.list(FRAMEWORKS, "default"))["items"] == []


async def test_replaced_framework_gets_a_new_key(client: KubeClient, tmp_path: Path) -> None:
    manifests = load(tmp_path, is_local=False)
    await apply(client, manifests)
    (before,) = await list_secrets(client)
    assert len(await apply(client, manifests, replaces=True)) == 1
    (after,) = await list_secrets(client)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["data"]["id_rsa"] != before["data"]["id_rsa"]


async def test_dry_run_shows_the_secret_and_creates_none(
    client: KubeClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = load(tmp_path, is_local=False)
    show_files(manifests)
    assert "secret/elastic created (dry run)" in capsys.readouterr().out
    await show_answers(client, manifests, replaces=False, dry_run="server")
    assert "secret/elastic created (server dry run)" in capsys.readouterr().out
    assert await list_secrets(client) == []
    with pytest.raises(CliError, match="there is no Secret 'mine'"):
        await show_answers(
            client, load(tmp_path, name="mine", is_local=False), replaces=False, dry_run="server"
        )
