"""Objects: create, read, replace, list, names, versions, preconditions, dry run."""

import pytest

from tests.contract.apiclient import Api, Object, config_map, pod


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


async def test_create_twice_is_already_exists(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.create("configmaps", config_map("one"))

    answer.refused(409, "AlreadyExists")
    assert answer.body["details"] == {"name": "one", "kind": "configmaps"}


async def test_get_of_a_missing_object_is_not_found(api: Api) -> None:
    answer = await api.get("configmaps", "none")

    answer.refused(404, "NotFound")
    assert answer.body["details"] == {"name": "none", "kind": "configmaps"}


async def test_create_in_a_missing_namespace_is_not_found(api: Api) -> None:
    api.namespace = "no-such-namespace"

    answer = await api.create("configmaps", config_map("one"))

    answer.refused(404, "NotFound")
    assert answer.body["details"] == {"name": "no-such-namespace", "kind": "namespaces"}


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
    body = {
        "apiVersion": "contract.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one"},
        "spec": {"size": 1},
    }
    (await api.create("widgets", body)).ok()

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


async def test_list_with_a_bad_continue_token_is_bad_request(api: Api) -> None:
    answer = await api.list("configmaps", **{"continue": "abc"})

    answer.refused(400, "BadRequest")


async def test_list_with_a_bad_limit_is_bad_request(api: Api) -> None:
    (await api.list("configmaps", limit="x")).refused(400, "BadRequest")


async def test_list_at_a_future_version_is_a_timeout(api: Api) -> None:
    version = int(await api.version("configmaps"))

    answer = await api.list("configmaps", resourceVersion=version + 1_000_000)

    answer.refused(504, "Timeout")
    assert answer.body["details"]["retryAfterSeconds"] >= 1


@pytest.mark.parametrize(
    "params",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Maybe", "resourceVersion": "1"},
    ],
    ids=["no version", "version zero", "unknown"],
)
async def test_list_with_a_bad_version_match_is_invalid(api: Api, params: dict[str, str]) -> None:
    answer = await api.list("configmaps", **params)

    assert answer.refused(422, "Invalid").fields == ["resourceVersionMatch"]


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


async def test_list_by_a_malformed_label_selector_is_bad_request(api: Api) -> None:
    (await api.list("configmaps", labelSelector="==")).refused(400, "BadRequest")


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


async def test_list_by_an_unknown_field_is_bad_request(api: Api) -> None:
    (await api.list("configmaps", fieldSelector="spec.foo=1")).refused(400, "BadRequest")


async def test_replace_with_the_current_version_is_stored(api: Api) -> None:
    body = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    body["data"] = {"a": "2"}

    replaced = (await api.replace("configmaps", body)).ok()

    assert replaced["data"] == {"a": "2"}
    assert replaced["metadata"]["uid"] == body["metadata"]["uid"]
    assert int(replaced["metadata"]["resourceVersion"]) > int(body["metadata"]["resourceVersion"])


async def test_replace_with_a_stale_version_is_a_conflict(api: Api) -> None:
    body = (await api.create("configmaps", config_map("one"))).ok()
    (await api.replace("configmaps", {**body, "data": {"a": "1"}})).ok()

    answer = await api.replace("configmaps", {**body, "data": {"a": "2"}})

    answer.refused(409, "Conflict")
    assert (await api.get("configmaps", "one")).ok()["data"] == {"a": "1"}


async def test_replace_without_a_version_overwrites(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()

    replaced = (await api.replace("configmaps", config_map("one", {"a": "2"}))).ok()

    assert replaced["data"] == {"a": "2"}


async def test_replace_of_a_missing_lease_creates_it(api: Api) -> None:
    body = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "a"}}

    created = await api.replace("leases", body)

    assert created.ok()["spec"] == {"holderIdentity": "a"}


async def test_replace_of_a_lease_without_a_version_is_refused(api: Api) -> None:
    body = {"metadata": {"name": "lease"}, "spec": {"holderIdentity": "me"}}
    (await api.create("leases", body)).ok()

    answer = await api.replace("leases", body)

    answer.refused(422, "Invalid")
    assert answer.fields == ["metadata.resourceVersion"]


async def test_replace_of_a_lease_with_a_stale_version_is_a_conflict(api: Api) -> None:
    body = {"metadata": {"name": "lease"}, "spec": {"holderIdentity": "me"}}
    created = (await api.create("leases", body)).ok()
    taken = {**created, "spec": {"holderIdentity": "you", "leaseDurationSeconds": 6}}
    (await api.replace("leases", taken)).ok()

    (await api.replace("leases", {**created, "spec": {}})).refused(409, "Conflict")


async def test_replace_of_a_missing_object_is_not_found(api: Api) -> None:
    (await api.replace("configmaps", config_map("none"))).refused(404, "NotFound")


async def test_replace_under_another_uid_is_a_conflict(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.replace("configmaps", config_map("one", uid="another"))

    answer.refused(409, "Conflict")


async def test_replace_under_another_name_is_bad_request(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.send("PUT", api.path("configmaps", "one"), config_map("two"))

    answer.refused(400, "BadRequest")


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


async def test_dry_run_of_an_unknown_kind_is_invalid(api: Api) -> None:
    answer = await api.create("configmaps", config_map("one"), dryRun="Some")

    assert answer.refused(422, "Invalid").fields == ["dryRun"]


async def test_generate_name_appends_a_suffix(api: Api) -> None:
    body = {"metadata": {"generateName": "gen-"}}

    names = {(await api.create("configmaps", body)).ok()["metadata"]["name"] for _ in range(5)}

    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


async def test_create_without_a_name_is_invalid(api: Api) -> None:
    answer = await api.create("configmaps", {"metadata": {}})

    assert answer.refused(422, "Invalid").causes == {("FieldValueRequired", "metadata.name")}


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "a" * 254])
async def test_create_with_a_bad_name_is_invalid(api: Api, name: str) -> None:
    answer = await api.create("configmaps", config_map(name))

    assert answer.refused(422, "Invalid").fields == ["metadata.name"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"bad key": "x"}}, "metadata.labels"),
        ({"labels": {"key": "bad value"}}, "metadata.labels"),
        ({"annotations": {"bad key": "x"}}, "metadata.annotations"),
        ({"finalizers": ["no_slash_upper/"]}, "metadata.finalizers"),
    ],
    ids=["label key", "label value", "annotation key", "finalizer"],
)
async def test_create_with_bad_metadata_is_invalid(api: Api, metadata: Object, field: str) -> None:
    answer = await api.create("configmaps", config_map("one", **metadata))

    answer.refused(422, "Invalid")
    assert answer.fields
    assert all(found.startswith(field) for found in answer.fields)


async def test_create_with_another_namespace_in_the_body_is_bad_request(api: Api) -> None:
    answer = await api.create("configmaps", config_map("one", namespace="other"))

    answer.refused(400, "BadRequest")


async def test_create_of_another_kind_is_bad_request(api: Api) -> None:
    answer = await api.send("POST", api.path("configmaps"), pod("one"))

    answer.refused(400, "BadRequest")


async def test_create_with_binary_content_wants_base64(api: Api) -> None:
    good = {"metadata": {"name": "good"}, "binaryData": {"roster.gz": "AAECAw=="}}
    bad = {"metadata": {"name": "bad"}, "binaryData": {"roster.gz": "%%%"}}

    assert (await api.create("configmaps", good)).ok()["binaryData"] == good["binaryData"]
    (await api.create("configmaps", bad)).refused(400, "BadRequest")


async def test_create_with_a_key_in_both_contents_is_invalid(api: Api) -> None:
    body = {"metadata": {"name": "one"}, "data": {"k": "x"}, "binaryData": {"k": "AAEC"}}

    (await api.create("configmaps", body)).refused(422, "Invalid")


async def test_create_with_a_number_in_the_data_is_bad_request(api: Api) -> None:
    body = {"metadata": {"name": "one"}, "data": {"a": 1}}

    (await api.create("configmaps", body)).refused(400, "BadRequest")


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


async def test_event_about_another_namespace_is_invalid(api: Api) -> None:
    body = {
        "metadata": {"name": "one"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"},
    }

    assert (await api.create("events", body)).refused(422, "Invalid").fields == [
        "involvedObject.namespace"
    ]


async def test_unknown_fields_are_dropped_with_a_warning(api: Api) -> None:
    body = {**config_map("one"), "bogus": 1}

    answer = await api.create("configmaps", body)

    assert "bogus" not in answer.ok()
    assert 'unknown field \\"bogus\\"' in answer.headers.get("Warning", "")


async def test_unknown_fields_under_strict_validation_are_bad_request(api: Api) -> None:
    body = {**config_map("one"), "bogus": 1}

    answer = await api.create("configmaps", body, fieldValidation="Strict")

    answer.refused(400, "BadRequest")
    assert 'unknown field "bogus"' in answer.body["message"]


async def test_unknown_fields_under_no_validation_are_silent(api: Api) -> None:
    answer = await api.create("configmaps", {**config_map("one"), "x": 1}, fieldValidation="Ignore")

    assert "x" not in answer.ok()
    assert "Warning" not in answer.headers


async def test_bad_field_validation_is_invalid(api: Api) -> None:
    answer = await api.create("configmaps", config_map("one"), fieldValidation="Maybe")

    assert answer.refused(422, "Invalid").fields == ["fieldValidation"]
