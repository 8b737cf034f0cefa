from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.files.manifests import Manifest, Manifests
from cli.files.places import Place
from cli.running.apply import apply_all
from cli.running.dryrun import show_answers
from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.errors import InvalidError, build_api_error
from framework.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    FRAMEWORKS,
    NAMESPACES,
    Object,
    Resource,
)
from tests.support.servers.gang import MADE_BY_TESTS
from tests.support.servers.localapi import open_local_api

pytestmark = pytest.mark.local


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of an API server without kubelet and controller."""
    async with open_local_api(tmp_path) as api:
        yield api.client


def build(resource: Resource, name: str, members: Object, **metadata: object) -> Manifest:
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": "default", **metadata},
        **members,
    }
    return Manifest(resource, "default", name, body, Place("f.yaml"))


def framework(name: str, **metadata: object) -> Manifest:
    return build(FRAMEWORKS, name, {"spec": {"taskRoles": []}}, **metadata)


def namespace(name: str) -> Manifest:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return Manifest(NAMESPACES, None, name, body, Place("f.yaml"))


def configmap(name: str, value: str) -> Manifest:
    return build(CONFIGMAPS, name, {"data": {"key": value}})


async def list_names(client: KubeClient, resource: Resource) -> list[str]:
    listed = await client.list(resource, "default", field_selector=MADE_BY_TESTS)
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_apply_creates_everything(client: KubeClient) -> None:
    manifests = Manifests((configmap("app", "1"),), (framework("a"), framework("b")), ())
    created = await apply_all(client, manifests, replaces=False)
    assert [obj["metadata"]["name"] for obj in created] == ["a", "b"]
    assert await list_names(client, CONFIGMAPS) == ["app"]


async def test_apply_of_a_configmap_that_exists_changes_it(client: KubeClient) -> None:
    await apply_all(client, Manifests((configmap("app", "1"),), (), ()), replaces=False)
    await apply_all(client, Manifests((configmap("app", "2"),), (), ()), replaces=False)
    assert (await client.get(CONFIGMAPS, "default", "app"))["data"] == {"key": "2"}


async def test_apply_of_a_framework_that_exists_refuses_and_applies_nothing(
    client: KubeClient,
) -> None:
    await apply_all(client, Manifests((), (framework("a"),), ()), replaces=False)
    manifests = Manifests((configmap("app", "1"),), (framework("b"), framework("a")), ())
    with pytest.raises(CliError, match=r"'a' exists in namespace default: .*--replace") as caught:
        await apply_all(client, manifests, replaces=False)
    assert caught.value.exit_code is ExitCode.USAGE
    assert await list_names(client, CONFIGMAPS) == []
    assert await list_names(client, FRAMEWORKS) == ["a"]


async def test_apply_with_replace_puts_a_new_framework_in_its_place(client: KubeClient) -> None:
    manifests = Manifests((), (framework("a"),), ())
    (old,) = await apply_all(client, manifests, replaces=False)
    (new,) = await apply_all(client, manifests, replaces=True)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.mark.parametrize("refused", ["framework", "configmap", "another framework"])
async def test_apply_with_replace_deletes_nothing_if_the_server_refuses_an_object(
    client: KubeClient, refused: str
) -> None:
    (old,) = await apply_all(client, Manifests((), (framework("a"),), ()), replaces=False)

    def build_labels(kind: str) -> Object:
        return {"labels": {"no label!": "x"}} if kind == refused else {}

    support = build(CONFIGMAPS, "app", {}, **build_labels("configmap"))
    frameworks = [framework("a", **build_labels("framework"))]
    if refused == "another framework":
        frameworks.append(framework("bad", **build_labels(refused)))
    with pytest.raises(InvalidError, match="no label!"):
        await apply_all(client, Manifests((support,), tuple(frameworks), ()), replaces=True)
    kept = await client.get(FRAMEWORKS, "default", "a")
    assert kept["metadata"]["uid"] == old["metadata"]["uid"]
    assert "deletionTimestamp" not in kept["metadata"]
    assert await list_names(client, CONFIGMAPS) == []


async def test_apply_with_replace_may_use_the_quota_of_what_it_replaces(
    client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = await apply_all(client, Manifests((), (framework("a"),), ()), replaces=False)
    create = KubeClient.create

    async def create_within_quota(self: KubeClient, *args: Any, **options: Any) -> Object:
        listed = await self.list(FRAMEWORKS, "default")
        if listed["items"]:
            raise build_api_error(
                403, b'{"message": "exceeded quota: one"}', method="POST", path="/apis"
            )
        return await create(self, *args, **options)

    monkeypatch.setattr(KubeClient, "create", create_within_quota)
    (new,) = await apply_all(client, Manifests((), (framework("a"),), ()), replaces=True)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_apply_that_the_server_refuses_changes_everything_back(client: KubeClient) -> None:
    await apply_all(client, Manifests((configmap("old", "1"),), (), ()), replaces=False)
    refused = framework("bad", labels={"no label!": "x"})
    manifests = Manifests(
        (configmap("old", "2"), configmap("new", "1")), (framework("good"), refused), ()
    )
    with pytest.raises(InvalidError, match="no label!"):
        await apply_all(client, manifests, replaces=False)
    assert await list_names(client, FRAMEWORKS) == []
    assert await list_names(client, CONFIGMAPS) == ["old"]
    assert (await client.get(CONFIGMAPS, "default", "old"))["data"] == {"key": "1"}


async def test_apply_without_the_crd_says_what_to_install(client: KubeClient) -> None:
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, None, constants.FRAMEWORK_CRD_NAME)
    remedy = r"does not know Frameworks: install the CRD .*--local"
    with pytest.raises(CliError, match=remedy) as caught:
        await apply_all(client, Manifests((), (framework("a"),), ()), replaces=False)
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("resource", [CONFIGMAPS, FRAMEWORKS])
async def test_apply_to_a_namespace_that_is_missing_says_how_to_make_it(
    client: KubeClient, resource: Resource
) -> None:
    body = build(resource, "a", {"spec": {"taskRoles": []}} if resource is FRAMEWORKS else {}).body
    body["metadata"]["namespace"] = "absent"
    manifest = Manifest(resource, "absent", "a", body, Place("f.yaml"))
    manifests = (
        Manifests((), (manifest,), ()) if resource is FRAMEWORKS else Manifests((manifest,), (), ())
    )
    with pytest.raises(CliError) as caught:
        await apply_all(client, manifests, replaces=False)
    assert caught.value.exit_code is ExitCode.USAGE
    assert str(caught.value) == (
        "f.yaml: metadata.namespace: there is no namespace 'absent': create it "
        "(kubectl create namespace absent), put a Namespace of this name into the file, "
        "or take another one with --namespace"
    )


async def test_dry_run_says_what_would_change_and_changes_nothing(
    client: KubeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Manifests((configmap("old", "1"),), (framework("gang"),), ())
    (stored,) = await apply_all(client, old, replaces=False)
    supporting = (namespace("default"), configmap("old", "2"), configmap("new", "2"))
    new = Manifests(supporting, (framework("gang"), framework("other")), ())
    await show_answers(client, new, replaces=True, dry_run="server")
    assert capsys.readouterr().out.splitlines() == [
        "namespace/default unchanged (server dry run)",
        "configmap/old configured (server dry run)",
        "configmap/new created (server dry run)",
        "framework.frameworkcontroller.microsoft.com/gang replaced (server dry run)",
        "framework.frameworkcontroller.microsoft.com/other created (server dry run)",
    ]
    assert (await client.get(CONFIGMAPS, "default", "old"))["data"] == {"key": "1"}
    assert await list_names(client, CONFIGMAPS) == ["old"]
    assert await list_names(client, FRAMEWORKS) == ["gang"]
    assert await client.get(FRAMEWORKS, "default", "gang") == stored


async def test_dry_run_in_a_namespace_of_the_files_says_what_is_not_checked(
    client: KubeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = Manifest(CONFIGMAPS, "team", "app", configmap("app", "1").body, Place("f.yaml"))
    new = Manifests((namespace("team"), inside), (), ())
    await show_answers(client, new, replaces=False, dry_run="server")
    assert capsys.readouterr().out.splitlines() == [
        "namespace/team created (server dry run)",
        "configmap/app created (server dry run), not checked: its namespace is new",
    ]


async def test_dry_run_tells_a_framework_that_exists(client: KubeClient) -> None:
    gang = Manifests((), (framework("gang"),), ())
    await apply_all(client, gang, replaces=False)
    with pytest.raises(CliError, match="a Framework 'gang' exists in namespace default"):
        await show_answers(client, gang, replaces=False, dry_run="server")


async def test_dry_run_tells_what_the_server_refuses(client: KubeClient) -> None:
    refused = build(FRAMEWORKS, "gang", {"spec": {"taskRoles": "worker"}})
    with pytest.raises(InvalidError):
        await show_answers(client, Manifests((), (refused,), ()), replaces=False, dry_run="server")
