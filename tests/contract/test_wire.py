"""The wire: discovery, content types, forms, unknown paths, access."""

import json

import aiohttp
import pytest

from tests.contract.apiclient import (
    GROUP,
    METADATA,
    METADATA_LIST,
    TABLE,
    Api,
    config_map,
    pod,
)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_ok(api: Api, path: str) -> None:
    answer = await api.send("GET", path)
    assert (answer.status, answer.body) == (200, "ok")


async def test_version_is_at_least_1_29(api: Api) -> None:
    version = (await api.send("GET", "/version")).ok()
    assert int(version["major"]) == 1
    assert int(version["minor"].rstrip("+")) >= 29


async def test_wrong_token_is_unauthorized(api: Api) -> None:
    async with api.session.get(
        api.url + api.path("pods"), headers={"Authorization": "Bearer wrong"}
    ) as response:
        status = json.loads(await response.read())
    assert response.status == 401
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Unauthorized", 401)


async def test_health_needs_no_token(api: Api) -> None:
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.get(api.url + "/readyz") as response,
    ):
        assert await response.text() == "ok"


async def test_core_discovery_lists_pods_and_their_subresources(api: Api) -> None:
    resources = (await api.send("GET", "/api/v1")).ok()["resources"]
    by_name = {item["name"]: item for item in resources}
    assert by_name["pods"]["kind"] == "Pod"
    assert by_name["pods"]["namespaced"] is True
    assert by_name["pods"]["shortNames"] == ["po"]
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(by_name["pods"]["verbs"])
    assert set(by_name["pods/status"]["verbs"]) == {"get", "patch", "update"}
    assert by_name["pods/log"]["verbs"] == ["get"]
    assert by_name["namespaces"]["namespaced"] is False


async def test_group_discovery_lists_the_custom_kind(api: Api) -> None:
    groups = (await api.send("GET", "/apis")).ok()
    group = (await api.send("GET", f"/apis/{GROUP}")).ok()
    resources = (await api.send("GET", f"/apis/{GROUP}/v1")).ok()["resources"]
    assert GROUP in [item["name"] for item in groups["groups"]]
    assert group["preferredVersion"]["groupVersion"] == f"{GROUP}/v1"
    by_name = {item["name"]: item for item in resources}
    assert set(by_name) == {"widgets", "widgets/status"}
    assert (by_name["widgets"]["kind"], by_name["widgets"]["shortNames"]) == ("Widget", ["wdg"])


async def test_openapi_tells_that_patch_validates_fields(api: Api) -> None:
    index = (await api.send("GET", "/openapi/v3")).ok()["paths"]
    address = index[f"apis/{GROUP}/v1"]["serverRelativeURL"]

    document = (await api.send("GET", address)).ok()

    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}"
    patch = document["paths"][path]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Widget"
    schemas = document["components"]["schemas"].values()
    described = [
        schema
        for schema in schemas
        if {"group": GROUP, "version": "v1", "kind": "Widget"}
        in schema.get("x-kubernetes-group-version-kind", [])
    ]
    assert described[0]["properties"]["spec"]["properties"]["size"]["description"] == "How many."


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothings",
        "/api/v1/namespaces/default/nothings/x",
        "/api/v1/namespaces/default/configmaps/x/status",
        "/api/v1/namespaces/default/nodes",
        "/apis/none.example.com/v1/things",
        "/none",
    ],
)
async def test_unknown_path_is_not_found(api: Api, path: str) -> None:
    assert (await api.send("GET", path)).status == 404


async def test_protobuf_preference_falls_back_to_json(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()
    accept = "application/unknown,application/json"
    assert (await api.get("configmaps", "one", accept=accept)).ok()["kind"] == "ConfigMap"


async def test_metadata_of_one_object(api: Api) -> None:
    created = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    answer = await api.get("configmaps", "one", accept=METADATA)
    assert answer.ok() == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }


async def test_metadata_of_a_list(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    listed = (await api.list("configmaps", accept=METADATA_LIST)).ok()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["metadata"]["resourceVersion"].isdecimal()
    assert {item["kind"] for item in listed["items"]} == {"PartialObjectMetadata"}
    assert all("data" not in item for item in listed["items"])


async def test_table_of_pods_has_the_known_columns(api: Api) -> None:
    (await api.create("pods", pod("one", node="n1"))).ok()

    table = (await api.list("pods", accept=TABLE)).ok()

    assert table["kind"] == "Table"
    # A cluster has two further columns, which `-o wide` shows.
    assert [column["name"] for column in table["columnDefinitions"]][:7] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
    ]
    cells = table["rows"][0]["cells"]
    assert cells[:4] == ["one", "0/1", "Pending", "0"]
    assert cells[5:7] == ["<none>", "n1"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_table_with_whole_objects(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    table = (await api.get("configmaps", "one", accept=TABLE, includeObject="Object")).ok()
    assert table["rows"][0]["object"]["data"] == {"a": "1"}


async def test_table_falls_back_to_json(api: Api) -> None:
    listed = (await api.list("configmaps", accept=TABLE + ",application/json")).ok()
    assert listed["kind"] == "Table"


async def test_access_review_allows_the_owner_of_the_token(api: Api) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": api.namespace}
        },
    }

    answer = await api.create("selfsubjectaccessreviews", body)

    assert answer.status == 201
    assert answer.body["status"]["allowed"] is True
    assert answer.body["spec"] == body["spec"]
