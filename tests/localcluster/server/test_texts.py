"""The front's small readers and writers: ages, Accept headers, paths, tokens, bodies."""

import pytest

from framework.api.durations import format_seconds
from framework.kube.tokenurl import url_with_token
from localcluster.apiserver.bodies.patches import media_name
from localcluster.apiserver.front.auth import BearerTokens
from localcluster.apiserver.front.payloads import decode_object
from localcluster.apiserver.front.pod_logs import choose_container
from localcluster.apiserver.front.targets import (
    Target,
    parse_target,
    read_flag,
    read_number,
    read_resource_version,
)
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.views.forms import Form, choose_form

MINUTE, HOUR, DAY = 60, 3600, 86400
AGES = {
    -5: "<invalid>", -1: "0s", 0.4: "0s", 119: "119s", 120: "2m", 9 * MINUTE + 52: "9m52s",
    10 * MINUTE + 5: "10m", 179 * MINUTE: "179m", 3 * HOUR: "3h", 7 * HOUR + 5 * MINUTE: "7h5m",
    8 * HOUR + 5 * MINUTE: "8h", 47 * HOUR: "47h", 2 * DAY + 3 * HOUR: "2d3h", 7 * DAY: "7d",
    8 * DAY + 3 * HOUR: "8d", 729 * DAY: "729d", 730 * DAY: "2y", 800 * DAY: "2y70d",
    3000 * DAY: "8y",
}  # fmt: skip


@pytest.mark.parametrize(("seconds", "expected"), AGES.items())
def test_format_seconds_uses_at_most_two_units(seconds: float, expected: str) -> None:
    assert format_seconds(seconds) == expected


META = "g=meta.k8s.io;v=v1"
FORMS = {
    "": Form.OBJECT,
    "*/*": Form.OBJECT,
    "application/json, */*": Form.OBJECT,
    "application/vnd.kubernetes.protobuf,application/json": Form.OBJECT,
    f"application/json;as=Table;{META},application/json": Form.TABLE,
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io": Form.TABLE,
    "application/json; as=Table; v=v9; g=meta.k8s.io, application/json": Form.OBJECT,
    f"application/json;as=PartialObjectMetadata;{META}": Form.METADATA,
    f"application/json;as=PartialObjectMetadataList;{META}": Form.METADATA_LIST,
    f"application/vnd.kubernetes.protobuf;as=Table;{META},application/json": Form.OBJECT,
    f"application/json;as=Novel;{META}": None,
    "text/html": None,
    "application/vnd.kubernetes.protobuf": None,
}


@pytest.mark.parametrize(("accept", "form"), FORMS.items())
def test_choose_form_takes_the_first_that_is_known(accept: str, form: Form | None) -> None:
    assert choose_form(accept) is form


def test_media_name_drops_parameters() -> None:
    assert media_name("Application/JSON; charset=utf-8") == "application/json"


TARGETS = {
    "/api/v1/pods": Target("", "v1", "pods"),
    "/api/v1/namespaces": Target("", "v1", "namespaces"),
    "/api/v1/namespaces/a": Target("", "v1", "namespaces", None, "a"),
    "/api/v1/namespaces/a/status": Target("", "v1", "namespaces", None, "a", "status"),
    "/api/v1/namespaces/a/pods": Target("", "v1", "pods", "a"),
    "/api/v1/namespaces/a/pods/p": Target("", "v1", "pods", "a", "p"),
    "/api/v1/namespaces/a/pods/p/log": Target("", "v1", "pods", "a", "p", "log"),
    "/api/v1/nodes/n": Target("", "v1", "nodes", None, "n"),
    "/apis/g.io/v2/namespaces/a/things/x%3Ay": Target("g.io", "v2", "things", "a", "x:y"),
    "/apis/g.io/v2/things/": Target("g.io", "v2", "things"),
}
NO_TARGETS = ["/", "/api", "/api/v1", "/apis", "/apis/g", "/apis/g/v1", "/other",
              "/api/v1/a/b/c/d/e", "/api/v1/namespaces//pods"]  # fmt: skip


@pytest.mark.parametrize(("path", "target"), [*TARGETS.items(), *((p, None) for p in NO_TARGETS)])
def test_parse_target_reads_resource_paths_and_no_others(path: str, target: Target | None) -> None:
    assert parse_target(path) == target


def test_read_flag_is_set_by_any_value_but_0() -> None:
    flags = {value: read_flag({"w": value}, "w") for value in ("", "1", "true", "0")}
    assert flags == {"": True, "1": True, "true": True, "0": False}
    assert read_flag({}, "w") is False


def test_read_number_refuses_text() -> None:
    with pytest.raises(StatusError) as caught:
        read_number({"limit": "many"}, "limit")
    assert caught.value.code == 400
    assert (read_number({"limit": ""}, "limit"), read_number({"limit": "7"}, "limit")) == (None, 7)


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "\u0663"])
def test_read_resource_version_refuses_other_text_than_numbers(text: str) -> None:
    with pytest.raises(StatusError, match="resourceVersion"):
        read_resource_version({"resourceVersion": text})


TOKENS = BearerTokens(["one", "tw/o"])


@pytest.mark.parametrize(
    ("path", "authorization", "admitted"),
    [
        ("/api", "Bearer one", "/api"),
        ("/api", "bearer  tw/o", "/api"),
        ("/api", "Bearer three", None),
        ("/api", "Basic one", None),
        ("/api", "Bearer", None),
        ("/api", None, None),
        ("/api", "Bearer on\xe9", None),
        ("/readyz", None, "/readyz"),
        ("/version", None, "/version"),
        ("/readyz/../api", None, None),
        ("/token/one/api/v1", None, "/api/v1"),
        ("/token/tw%2Fo/api", None, "/api"),
        ("/token/three/api", "Bearer one", None),
        ("/token//api", None, None),
        ("/token/one", None, "/"),
    ],
)
def test_tokens_admit_by_header_or_path(
    path: str, authorization: str | None, admitted: str | None
) -> None:
    assert TOKENS.admit(path, authorization) == admitted


@pytest.mark.parametrize("tokens", [[], [""], ["a", ""]])
def test_tokens_that_open_the_server_are_refused(tokens: list[str]) -> None:
    with pytest.raises(ValueError, match="tokens"):
        BearerTokens(tokens)


def test_url_with_token_quotes_the_token() -> None:
    assert url_with_token("http://127.0.0.1:1/", "tw/o") == "http://127.0.0.1:1/token/tw%2Fo"


def test_decode_object_reads_json() -> None:
    assert decode_object(b'{"a": 1}', "application/json; charset=utf-8", "K") == {"a": 1}
    assert decode_object(b'{"a": 1}', "", "K") == {"a": 1}


@pytest.mark.parametrize(
    ("body", "content_type", "code", "text"),
    [
        (b'{"a', "application/json", 400, r'json parse error: .* \(\{"a\)'),
        (b"", "application/json", 400, "<empty>"),
        (b"\xff\xfe", "application/json", 400, "json parse error"),
        (b"[]", "application/json", 400, "must be of type K.*not an object"),
        (b"a: 1", "application/yaml", 415, "application/json"),
        (b"[" * 100_000, "application/json", 400, "json parse error"),
    ],
)
def test_decode_object_names_the_mistake(
    body: bytes, content_type: str, code: int, text: str
) -> None:
    with pytest.raises(StatusError, match=text) as caught:
        decode_object(body, content_type, "K")
    assert caught.value.code == code


def build_pod(mains: str, inits: str) -> dict[str, object]:
    fields = {"containers": mains, "initContainers": inits}
    spec = {field: [{"name": name} for name in names] for field, names in fields.items()}
    return {"metadata": {"name": "p"}, "spec": spec}


def test_choose_container_takes_the_only_one_or_the_named_one() -> None:
    assert choose_container(build_pod("a", ""), None) == "a"
    assert choose_container(build_pod("a", "i"), None) == "a"
    assert choose_container(build_pod("ab", "i"), "i") == "i"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (None, r"choose one of: \[a b\] or one of the init containers: \[i\]"),
        ("z", "container z is not valid for pod p"),
    ],
)
def test_choose_container_refuses(wanted: str | None, text: str) -> None:
    with pytest.raises(StatusError, match=text):
        choose_container(build_pod("ab", "i"), wanted)
