"""Requests that a server refuses: the status, the reason, what it names, and nothing is stored."""

from functools import partial
from typing import Any

import pytest

from tests.contract.apiclient import (
    GROUP,
    JSON_PATCH,
    MERGE,
    METADATA,
    STRATEGIC,
    Api,
    Object,
    config_map,
    owned_by,
    pod,
    widget,
)
from tests.contract.conftest import WIDGET_CRD

ONE = {"name": "one"}
STALE = {"metadata": {**ONE, "resourceVersion": "1"}}
NEW = config_map("new")
OWNER = config_map("owner", uid="u-1")
OTHER_OWNER = config_map("other", uid="u-2")
MEBIBYTE = "x" * 1024 * 1024


def refuse(answer: str, request: str, body: Any = None, says: Any = None, **params: Any) -> Any:
    """One request that is refused.

    Args:
        answer: status and reason.
        request: method and path, which is below the namespace, or absolute.
        body: an object or bytes; None for none.
        says: fields of a 422 as list, causes as set, details as dict, or a part of the message.
        params: options of the query, and media types (``accept``, ``content``).
    """
    if request.startswith("PATCH"):
        params = {"content": MERGE, **params}
    return request, body, answer, says, params


bad = partial(refuse, "400 BadRequest")
not_found = partial(refuse, "404 NotFound")
not_allowed = partial(refuse, "405 MethodNotAllowed")
not_acceptable = partial(refuse, "406 NotAcceptable", "GET configmaps")
conflict = partial(refuse, "409 Conflict")
unsupported = partial(refuse, "415 UnsupportedMediaType")
invalid = partial(refuse, "422 Invalid")


def create(body: Any, says: Any = None, **params: Any) -> Any:
    return invalid("POST configmaps", body, says, **params)


def labelled(**metadata: Any) -> Any:
    return create(config_map("new", **metadata), [f"metadata.{field}" for field in metadata])


def json_patch(*operations: Any, refuse: Any = invalid) -> Any:
    return refuse("PATCH configmaps/one", list(operations), content=JSON_PATCH)


def follow(operation: Object) -> Any:
    """An operation after one that could be applied."""
    return json_patch({"op": "add", "path": "/data/b", "value": "x"}, operation)


def list_by(**params: str) -> Any:
    return bad("GET configmaps", **params)


def match_versions(**params: str) -> Any:
    return invalid("GET configmaps", None, ["resourceVersionMatch"], **params)


CREATES = {
    "name that is taken": refuse(
        "409 AlreadyExists", "POST configmaps", config_map("one"), {**ONE, "kind": "configmaps"}
    ),
    "missing namespace": not_found(
        "POST /api/v1/namespaces/none/configmaps", NEW, {"name": "none", "kind": "namespaces"}
    ),
    "no name": create({"metadata": {}}, {("FieldValueRequired", "metadata.name")}),
    "name with a capital": create(config_map("Upper"), ["metadata.name"]),
    "name with an underscore": create(config_map("under_score"), ["metadata.name"]),
    "name after a dash": create(config_map("-dash"), ["metadata.name"]),
    "name before a dot": create(config_map("dot."), ["metadata.name"]),
    "name of 254 characters": create(config_map("a" * 254), ["metadata.name"]),
    "label key": labelled(labels={"bad key": "x"}),
    "label value": labelled(labels={"key": "bad value"}),
    "annotation key": labelled(annotations={"bad key": "x"}),
    "finalizer": labelled(finalizers=["no_slash_upper/"]),
    "another namespace": bad("POST configmaps", config_map("new", namespace="other")),
    "another kind": bad("POST configmaps", pod("new")),
    "no namespace in the path": not_allowed("POST /api/v1/configmaps", NEW),
    "number in the data": bad("POST configmaps", {**NEW, "data": {"a": 1}}),
    "no base64": bad("POST configmaps", {**NEW, "binaryData": {"a": "%%%"}}),
    "key in both contents": create({**NEW, "data": {"k": "x"}, "binaryData": {"k": "AAEC"}}),
    "unknown field": bad(
        "POST configmaps", {**NEW, "bogus": 1}, 'unknown field "bogus"', fieldValidation="Strict"
    ),
    "unknown validation": create(NEW, ["fieldValidation"], fieldValidation="Maybe"),
    "unknown validation, its values": create(
        NEW,
        'fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", ',
        fieldValidation="Maybe",
    ),
    "unknown dry run": create(NEW, ["dryRun"], dryRun="Some"),
    "owner without a UID": create(
        config_map("new", ownerReferences=owned_by({**OWNER, "metadata": {**ONE, "uid": ""}})),
        ["metadata.ownerReferences.uid"],
    ),
    "two controllers": labelled(ownerReferences=owned_by(OWNER) + owned_by(OTHER_OWNER)),
    "event about another namespace": invalid(
        "POST events",
        {"metadata": ONE, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"}},
        ["involvedObject.namespace"],
    ),
    "malformed JSON": bad("POST configmaps", b'{"metadata', "json parse error"),
    "list": bad("POST configmaps", b"[]"),
    "text": bad("POST configmaps", b'"text"'),
    "null": bad("POST configmaps", b"null x"),
    "content that is no JSON": unsupported("POST configmaps", b"{}", content="text/plain"),
    "body above three mebibytes": refuse(
        "413 RequestEntityTooLarge", "POST configmaps", config_map("new", {"a": 3 * MEBIBYTE + "x"})
    ),
    "ConfigMap above a mebibyte": create(config_map("new", {"a": MEBIBYTE + "x"})),
}
CUSTOM = {
    "unknown field": bad(
        "POST widgets",
        widget("new", bogus=1),
        'unknown field "spec.bogus"',
        fieldValidation="Strict",
    ),
    "no required field": invalid(
        "POST widgets", {**widget("new"), "spec": {}}, {("FieldValueRequired", "spec.size")}
    ),
    "another kind": invalid("POST widgets", {**widget("new"), "kind": "Gadget"}, ["kind"]),
    "no version": invalid("PUT widgets/one", widget(size=2), ["metadata.resourceVersion"]),
    "stale status": conflict("PUT widgets/one/status", {**widget(), **STALE}),
    "invalid value": invalid("PATCH widgets/one", {"spec": {"size": 99}}, ["spec.size"]),
    "strategic patch": unsupported("PATCH widgets/one", {"spec": {}}, content=STRATEGIC),
    "definition under another name": invalid(
        "POST customresourcedefinitions",
        {**WIDGET_CRD, "metadata": {"name": f"others.{GROUP}"}},
        ["metadata.name"],
    ),
}
PODS = {
    "node beside a scheduling gate": invalid(
        "POST pods",
        pod("new", spec={"nodeName": "n1", "schedulingGates": [{"name": "a"}]}),
        {("FieldValueForbidden", "spec.nodeName")},
    ),
    "two containers of one name": invalid(
        "POST pods",
        pod("new", spec={"containers": 2 * pod("new")["spec"]["containers"]}),
        {("FieldValueDuplicate", "spec.containers[1].name")},
    ),
    "quantity": bad("POST pods", pod("new", container={"resources": {"limits": {"cpu": "abc"}}})),
    "command": bad("POST pods", pod("new", container={"command": "sh"})),
    "containers": bad("POST pods", pod("new", spec={"containers": "none"})),
    "grace": bad("POST pods", pod("new", spec={"terminationGracePeriodSeconds": "soon"})),
    "environment": bad("POST pods", pod("new", container={"env": [{"name": "A", "value": 1}]})),
    "priority class": refuse(
        "403 Forbidden", "POST pods", pod("new", spec={"priorityClassName": "none"})
    ),
    "status of a missing Pod": not_found("PATCH pods/none/status", {"status": {}}),
    "stale status": conflict("PUT pods/one/status", {**pod("one"), **STALE}),
    "log of a missing Pod": not_found("GET pods/none/log"),
    "log of an unknown container": bad("GET pods/one/log", container="none"),
}
READS = {
    "missing object": not_found(
        "GET configmaps/none", None, {"name": "none", "kind": "configmaps"}
    ),
    "continue token": list_by(**{"continue": "abc"}),
    "limit": list_by(limit="x"),
    "label selector": list_by(labelSelector="=="),
    "unknown field": list_by(fieldSelector="spec.foo=1"),
    "exact without a version": match_versions(resourceVersionMatch="Exact"),
    "exact version zero": match_versions(resourceVersionMatch="Exact", resourceVersion="0"),
    "unknown version match": match_versions(resourceVersionMatch="Maybe", resourceVersion="1"),
    "initial events without a match": match_versions(watch="true", sendInitialEvents="true"),
    "unknown form": not_acceptable(accept="text/html"),
    "metadata of one object, asked of a list": not_acceptable(accept=METADATA),
}
REPLACES = {
    "collection": not_allowed("PUT configmaps", config_map("one")),
    "missing object": not_found("PUT configmaps/none", config_map("none")),
    "stale version": conflict("PUT configmaps/one", {**config_map("one", {"a": "2"}), **STALE}),
    "another UID": conflict("PUT configmaps/one", config_map("one", uid="another")),
    "another name": bad("PUT configmaps/one", config_map("two")),
    "lease without a version": invalid(
        "PUT leases/one", {"metadata": ONE}, ["metadata.resourceVersion"]
    ),
    "lease with a stale version": conflict("PUT leases/one", STALE),
    "POST to an object": not_allowed("POST configmaps/one", config_map("one")),
}
DELETES = {
    "missing object": not_found("DELETE configmaps/none"),
    "stale version": conflict("DELETE configmaps/one", {"preconditions": {"resourceVersion": "1"}}),
    "unknown policy": invalid(
        "DELETE configmaps/one", {"propagationPolicy": "Nonsense"}, ["propagationPolicy"]
    ),
    "unknown policy, its values": invalid(
        "DELETE configmaps/one", {"propagationPolicy": "nil"}, '"Orphan", "nil"'
    ),
    "default namespace": refuse("403 Forbidden", "DELETE /api/v1/namespaces/default"),
}
PATCHES = {
    "collection": not_allowed("PATCH configmaps", config_map("one")),
    "stale version": conflict("PATCH configmaps/one", {**STALE, "data": {"a": "2"}}),
    "another UID": invalid("PATCH configmaps/one", {"metadata": {"uid": "another"}}),
    "missing object, merge": not_found("PATCH configmaps/none", {"data": {}}),
    "missing object, strategic": not_found("PATCH configmaps/none", {}, content=STRATEGIC),
    "missing object, JSON": not_found("PATCH configmaps/none", [], content=JSON_PATCH),
    "test of another value": follow({"op": "test", "path": "/data/a", "value": "2"}),
    "replace below nothing": follow({"op": "replace", "path": "/none/deep", "value": "2"}),
    "add below nothing": follow({"op": "add", "path": "/none/deep", "value": "2"}),
    "remove of nothing": follow({"op": "remove", "path": "/data/none"}),
    "no path": json_patch({"op": "replace", "value": 1}),
    "no op": json_patch({"path": "/data", "value": {}}),
    "no from": json_patch({"op": "copy", "path": "/data"}),
    "path is a number": json_patch({"op": "replace", "path": 1, "value": 1}, refuse=bad),
    "no operation": json_patch("add", refuse=bad),
    "no list": bad("PATCH configmaps/one", {"a": 1}, content=JSON_PATCH),
    "malformed JSON": bad("PATCH configmaps/one", b'{"data'),
    "unknown type": unsupported("PATCH configmaps/one", {}, content="application/json"),
    "unknown type, no JSON": unsupported("PATCH configmaps/one", b"a: b", content="text/yaml"),
    "unknown type, missing object": unsupported("PATCH configmaps/none", {}, content="text/yaml"),
    "label": invalid("PATCH configmaps/one", {"metadata": {"labels": {"a": "no good"}}}),
    "force without apply": invalid("PATCH configmaps/one", {"data": {}}, ["force"], force="true"),
    **{
        f"{plural} to another {field}, {content}": invalid(
            f"PATCH {plural}/one", body, content=content
        )
        for plural in ("configmaps", "widgets")
        for field, value in (("kind", "Gadget"), ("apiVersion", "v9"))
        for content, body in (
            (MERGE, {field: value}),
            (JSON_PATCH, [{"op": "replace", "path": f"/{field}", "value": value}]),
        )
    },
}
GROUPS = {
    "create": CREATES,
    "custom resource": CUSTOM,
    "Pod": PODS,
    "read": READS,
    "replace": REPLACES,
    "delete": DELETES,
    "patch": PATCHES,
}
CASES = {
    f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()
}


async def read_stored(api: Api) -> list[Object]:
    return [(await api.get(plural, "one")).ok() for plural in ("configmaps", "widgets", "leases")]


@pytest.mark.parametrize(
    ("line", "body", "answer", "says", "params"), list(CASES.values()), ids=list(CASES)
)
async def test_refused_request_says_why_and_changes_nothing(
    api: Api, line: str, body: Any, answer: str, says: Any, params: dict[str, Any]
) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    (await api.create("pods", pod("one", node="n1"))).ok()
    (await api.create("widgets", widget())).ok()
    (await api.create("leases", {"metadata": ONE, "spec": {"holderIdentity": "me"}})).ok()
    before = await read_stored(api)

    method, path = line.split()
    path = path if path.startswith("/") else api.path(*path.split("/"))
    refused = await api.send(method, path, body, **params)

    status, reason = answer.split()
    refused.refused(int(status), reason)
    if isinstance(says, list):
        assert refused.fields == says
    elif isinstance(says, set):
        assert says <= refused.causes
    elif isinstance(says, dict):
        assert refused.body["details"] == says
    elif says is not None:
        assert says in refused.body["message"]
    assert await read_stored(api) == before
