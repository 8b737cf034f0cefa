"""Objects: create, read, replace, list, names, versions, preconditions, dry run."""

import pytest

from tests.contract.apiclient import Api, config_map, pod, widget


async def test_create_of_an_object_sets_the_metadata(api: Api) -> None:
    answer = await api.create("configmaps", config_map("one", {"a": "b"}))
    assert answer.status == 201
    metadata = answer.ok()["metadata"]
    assert metadata["namespace"] == api.namespace
    assert metadata["uid"]
    assert metadata["resourceVersion"].isdecimal()
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata
    assert (await api.get("configmaps", "one")).ok() == answer.body


async def test_create_with_server_owned_metadata_ignores_it(api: Api) -> None:
    body = config_map("one", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", selfLink="x")
    metadata = (await api.create("configmaps", body)).ok()["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in metadata


async def test_create_with_a_resource_version_is_refused(api: Api) -> None:
    body = config_map("one", resourceVersion="1")
    answer = await api.create("configmaps", body)
    assert answer.status >= 400


async def test_list_has_a_version_and_items_without_kind(api: Api) -> None:
    await api.create("configmaps", config_map("b"))
    await api.create("configmaps", config_map("a"))
    listed = (await api.list("configmaps")).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert all("kind" not in item for item in listed["items"])
    assert listed["metadata"]["resourceVersion"].isdecimal()


async def test_list_of_custom_resources_has_items_with_kind(api: Api) -> None:
    (await api.create("widgets", widget())).ok()
    listed = (await api.list("widgets")).ok()
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["kind"] == "Widget"
    assert listed["items"][0]["apiVersion"] == "contract.example.com/v1"


async def test_list_of_all_namespaces_contains_ours(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()
    listed = (await api.send("GET", api.path("configmaps", everywhere=True))).ok()
    here = [
        item["metadata"]["name"]
        for item in listed["items"]
        if item["metadata"]["namespace"] == api.namespace
    ]
    assert here == ["one"]


async def test_list_with_a_limit_comes_in_pages_of_one_version(api: Api) -> None:
    for name in ("a", "b", "c", "d", "e"):
        (await api.create("configmaps", config_map(name))).ok()

    first = (await api.list("configmaps", limit=2)).ok()
    (await api.create("configmaps", config_map("bb"))).ok()
    token = first["metadata"]["continue"]
    second = (await api.list("configmaps", **{"limit": 2, "continue": token})).ok()
    token = second["metadata"]["continue"]
    third = (await api.list("configmaps", **{"limit": 2, "continue": token})).ok()

    names = [
        [item["metadata"]["name"] for item in page["items"]] for page in (first, second, third)
    ]
    assert names == [["a", "b"], ["c", "d"], ["e"]]
    assert first["metadata"]["remainingItemCount"] == 3
    assert not third["metadata"].get("continue")
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


async def test_list_at_a_future_version_is_a_timeout(api: Api) -> None:
    version = int(await api.version("configmaps"))
    answer = await api.list("configmaps", resourceVersion=version + 1_000_000)
    answer.refused(504, "Timeout")
    assert answer.body["details"]["retryAfterSeconds"] >= 1


async def test_list_at_an_exact_version_shows_the_past(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    (await api.create("configmaps", config_map("two"))).ok()
    version = await api.version("configmaps")
    (await api.patch("configmaps", "one", {"data": {"a": "2"}})).ok()
    (await api.delete("configmaps", "two")).ok()

    listed = (
        await api.list("configmaps", resourceVersion=version, resourceVersionMatch="Exact")
    ).ok()

    assert listed["metadata"]["resourceVersion"] == version
    found = {item["metadata"]["name"]: item.get("data") for item in listed["items"]}
    assert found["one"] == {"a": "1"}
    assert "two" in found


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("color=red", ["a"]),
        ("color!=red", ["b", "c"]),
        ("color in (red,blue)", ["a", "b"]),
        ("color notin (red)", ["b", "c"]),
        ("color", ["a", "b"]),
        ("!color", ["c"]),
        ("color=red,size=1", ["a"]),
        ("color==blue", ["b"]),
    ],
)
async def test_list_by_labels_selects(api: Api, selector: str, expected: list[str]) -> None:
    await api.create("configmaps", config_map("a", labels={"color": "red", "size": "1"}))
    await api.create("configmaps", config_map("b", labels={"color": "blue"}))
    await api.create("configmaps", config_map("c"))
    listed = (await api.list("configmaps", labelSelector=selector)).ok()
    names = [item["metadata"]["name"] for item in listed["items"]]
    assert [name for name in names if len(name) == 1] == expected


async def test_list_by_fields_selects(api: Api) -> None:
    await api.create("pods", pod("a", node="n1"))
    await api.create("pods", pod("b"))

    by_name = (await api.list("pods", fieldSelector="metadata.name=a")).ok()
    by_node = (await api.list("pods", fieldSelector="spec.nodeName=n1")).ok()
    unbound = (await api.list("pods", fieldSelector="spec.nodeName=,status.phase=Pending")).ok()
    others = (await api.list("pods", fieldSelector="metadata.name!=a")).ok()

    names = [
        [item["metadata"]["name"] for item in listed["items"]]
        for listed in (by_name, by_node, unbound, others)
    ]
    assert names == [["a"], ["a"], ["b"], ["b"]]


async def test_replace_with_the_current_version_is_stored(api: Api) -> None:
    body = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    body["data"] = {"a": "2"}
    replaced = (await api.replace("configmaps", body)).ok()
    assert replaced["data"] == {"a": "2"}
    assert replaced["metadata"]["uid"] == body["metadata"]["uid"]
    assert int(replaced["metadata"]["resourceVersion"]) > int(body["metadata"]["resourceVersion"])


async def test_replace_without_a_version_overwrites(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    replaced = (await api.replace("configmaps", config_map("one", {"a": "2"}))).ok()
    assert replaced["data"] == {"a": "2"}


async def test_replace_that_changes_nothing_keeps_the_version(api: Api) -> None:
    body = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    replaced = (await api.replace("configmaps", body)).ok()
    assert replaced["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"]


async def test_versions_grow_over_all_kinds(api: Api) -> None:
    seen = []
    for plural, body in (
        ("configmaps", config_map("one")),
        ("pods", pod("two")),
        ("configmaps", config_map("three")),
    ):
        created = (await api.create(plural, body)).ok()
        seen.append(int(created["metadata"]["resourceVersion"]))
    seen.append(int(await api.version("configmaps")))

    assert seen == sorted(seen)
    assert len(set(seen[:3])) == 3


async def test_dry_run_create_stores_nothing(api: Api) -> None:
    answer = await api.create("configmaps", config_map("one"), dryRun="All")
    assert answer.status == 201
    assert answer.ok()["metadata"]["uid"]
    (await api.get("configmaps", "one")).refused(404, "NotFound")


async def test_dry_run_update_and_delete_store_nothing(api: Api) -> None:
    body = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    changed = (await api.replace("configmaps", {**body, "data": {"a": "2"}}, dryRun="All")).ok()
    patched = (await api.patch("configmaps", "one", {"data": {"a": "3"}}, dryRun="All")).ok()
    (await api.delete("configmaps", "one", dryRun="All")).ok()
    assert (changed["data"], patched["data"]) == ({"a": "2"}, {"a": "3"})
    assert (await api.get("configmaps", "one")).ok() == body


async def test_generate_name_appends_a_suffix(api: Api) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    names = {(await api.create("configmaps", body)).ok()["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


async def test_create_with_binary_content_wants_base64(api: Api) -> None:
    good = {"metadata": {"name": "good"}, "binaryData": {"roster.gz": "AAECAw=="}}
    bad = {"metadata": {"name": "bad"}, "binaryData": {"roster.gz": "%%%"}}
    assert (await api.create("configmaps", good)).ok()["binaryData"] == good["binaryData"]
    (await api.create("configmaps", bad)).refused(400, "BadRequest")


async def test_immutable_config_map_cannot_change(api: Api) -> None:
    body = {**config_map("one", {"a": "1"}), "immutable": True}
    (await api.create("configmaps", body)).ok()
    answer = await api.patch("configmaps", "one", {"data": {"a": "2"}})
    assert answer.refused(422, "Invalid").fields == ["data"]


async def test_secret_with_text_stores_base64(api: Api) -> None:
    body = {"metadata": {"name": "one"}, "stringData": {"a": "b"}}
    created = (await api.create("secrets", body)).ok()
    assert created["data"] == {"a": "Yg=="}
    assert created["type"] == "Opaque"
    assert "stringData" not in created


async def test_event_is_created_with_its_namespace(api: Api) -> None:
    body = {
        "metadata": {"name": "one"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.namespace, "uid": "u"},
        "reason": "Started",
        "message": "It did.",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    (await api.create("events", body)).ok()

    selector = "involvedObject.name=p,involvedObject.kind=Pod,involvedObject.uid=u"
    listed = (await api.list("events", fieldSelector=selector)).ok()

    assert [item["reason"] for item in listed["items"]] == ["Started"]


async def test_unknown_fields_are_dropped_with_a_warning(api: Api) -> None:
    body = {**config_map("one"), "bogus": 1}
    answer = await api.create("configmaps", body)
    assert "bogus" not in answer.ok()
    assert 'unknown field \\"bogus\\"' in answer.headers.get("Warning", "")


async def test_unknown_fields_under_no_validation_are_silent(api: Api) -> None:
    answer = await api.create("configmaps", {**config_map("one"), "x": 1}, fieldValidation="Ignore")
    assert "x" not in answer.ok()
    assert "Warning" not in answer.headers


async def test_deployment_is_stored_with_the_pods_that_it_wants(api: Api) -> None:
    container = {"name": "board", "image": "app:1", "args": ["a"]}
    labels = {"app": "board"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    made = (await api.create("deployments", {"metadata": {"name": "board"}, "spec": spec})).ok()
    assert made["spec"]["selector"] == spec["selector"]
    (stored,) = made["spec"]["template"]["spec"]["containers"]
    assert {name: stored[name] for name in container} == container
    wrong = {"metadata": {"name": "odd"}, "spec": {**spec, "paused": "yes"}}
    assert (await api.create("deployments", wrong)).status == 400
