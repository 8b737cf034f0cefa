"""``get``, ``describe``, ``tree`` and ``events`` as whole commands, on the local API server."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from framework.api.constants import FRAMEWORK_NAME
from framework.api.states import FrameworkState
from framework.kube.resources import Object
from tests.support.builders import (
    FAIL_FAST,
    build_role_status,
    build_role_wire,
    build_status_wire,
    build_submission,
    build_template_wire,
)
from tests.support.builders.observedframeworks import build_event
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import open_local_server

pytestmark = pytest.mark.local

GROUP = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
CORE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A server with the Framework gang, which has a Pod and Events, and the Framework other."""
    with open_local_server(tmp_path_factory.mktemp("server")) as access:
        _fill(access)
        yield access


def _fill(access: Access) -> None:
    http = access.open_http()

    def create(path: str, body: object) -> dict[str, str]:
        status, answer = http.request("POST", path, body)
        assert status == 201, answer
        metadata: dict[str, str] = answer["metadata"]
        return metadata

    spec = {"serviceAccountName": "trainer"}
    template = {"pod": {"spec": {**build_template_wire()["spec"], **spec}}}
    role = build_role_wire(number=2, task=template, frameworkAttemptCompletionPolicy=FAIL_FAST)
    metadata = create(GROUP, build_submission("gang", role))
    create(GROUP, build_submission("other", build_role_wire()))
    _, body = http.request("GET", f"{GROUP}/gang")
    body["status"] = build_status_wire(build_role_status(number=2))
    status, answer = http.request("PUT", f"{GROUP}/gang/status", body)
    assert status == 200, answer
    labels = {FRAMEWORK_NAME: "gang"}
    pod = {"metadata": {"name": "gang-worker-0", "labels": labels}, **build_template_wire()}
    create(f"{CORE}/pods", {"apiVersion": "v1", "kind": "Pod", **pod})
    times: Object = dict.fromkeys(
        ("firstTimestamp", "lastTimestamp"), metadata["creationTimestamp"]
    )
    involved = {"kind": "Framework", "name": "gang", "namespace": "default", "uid": metadata["uid"]}
    events = [
        build_event("TaskFailed", "worker/1 exited with 7\x1b[2J", type="Warning",
                    involvedObject=involved, **times),
        build_event("Started", "Started container main", kind="Pod", name="gang-worker-0", **times),
        build_event("Started", "not ours", kind="Pod", name="other-worker-0", **times),
    ]  # fmt: skip
    for event in events:
        create(f"{CORE}/events", {"apiVersion": "v1", "kind": "Event", **event})


def call(server: Access, *arguments: str) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--kubeconfig", server.kubeconfig])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_another_kind_in_front_of_names_is_refused(server: Access) -> None:
    for words in (["get", "pods"], ["get", "pods", "gang"], ["delete", "pod", "gang"]):
        result = call(server, *words)
        assert (result.exit_code, result.stdout) == (1, ""), result
        assert f"this is another kind: use `kubectl get {' '.join(words[1:])}`" in result.stderr
    assert call(server, "get", "gang", "-o", "name").exit_code == 0


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("-l", "a===", "write labels as app=x"),
        ("-l", "x in y", "write labels as app=x"),
        ("--field-selector", "a===", "metadata.name=gang"),
    ],
)
def test_selector_that_the_server_cannot_read_is_named(
    server: Access, option: str, value: str, remedy: str
) -> None:
    result = call(server, "get", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {option} {value!r}: is not valid; ")
    assert remedy in result.stderr


def test_get_warns_of_a_path_by_which_nothing_is_sorted(server: Access) -> None:
    result = call(server, "get", "--sort-by", "foo", "-o", "name")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.startswith("warning: --sort-by: no Framework has a text or a number there")
    assert call(server, "get", "--sort-by", ".metadata.name").stderr == ""


@pytest.mark.parametrize("word", ["worker/0", "worker-0"])
def test_logs_of_a_task_without_its_framework_names_the_form_and_those_there(
    server: Access, word: str
) -> None:
    result = call(server, "logs", word)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: no Framework {word!r} in namespace default: there are gang, other; if it is a "
        "Task, write its Framework in front: NAME worker/0\n"
    )


def test_get_prints_a_table_and_the_name_that_other_commands_take(server: Access) -> None:
    rows = [line.split() for line in call(server, "get").stdout.splitlines()]
    assert [row[0] for row in rows] == ["NAME", "gang", "other"]
    name = call(server, "get", "gang", "-o", "name").stdout.strip()
    assert call(server, "describe", name).stdout.startswith("Name:")


@pytest.mark.parametrize("command", ["get", "describe", "tree", "events"])
def test_missing_framework_is_exit_code_1_and_names_those_that_exist(
    server: Access, command: str
) -> None:
    result = call(server, command, "framework/gone")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: no Framework 'gone' in namespace default: there are gang, other\n"
    )


@pytest.mark.parametrize("command", [("get",), ("get", "-o", "name"), ("get", "-o", "wide")])
def test_empty_namespace_is_explained(server: Access, command: tuple[str, ...]) -> None:
    result = call(server, *command, "-n", "kube-system")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No resources found in kube-system namespace.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "gang", "-A"),
        ("get", "gang", "other", "--watch"),
        ("get", "-o", "jsonpath={.items"),
        ("get", "-o", "jsonpath={.items[9]}"),
        ("get", "--sort-by", "{.a}{.b}"),
        ("tree", "gang", "-o", "name"),
    ],
)
def test_bad_usage_is_exit_code_2(server: Access, arguments: tuple[str, ...]) -> None:
    assert call(server, *arguments).exit_code == 2


def test_describe_has_tasks_failures_and_events(server: Access) -> None:
    text = call(server, "describe", "gang").stdout
    assert "worker/0-1" in text
    assert "1 failed Task ends it as failed" in text
    assert "Failures so far:" in text
    assert "not ours" not in text
    assert "\x1b" not in text


def test_tree_has_pod_and_missing_service_account(server: Access) -> None:
    assert "Pod/gang-worker-0" in call(server, "tree", "gang", "--all").stdout
    tree = json.loads(call(server, "tree", "gang", "-o", "json").stdout)
    assert tree["objects"] == ["ServiceAccount/trainer (missing)"]
    assert [task["pod"] is None for task in tree["roles"][0]["tasks"]] == [False, True]
    names = call(server, "tree", "gang", "-o", "jsonpath={.roles[*].tasks[*].name}").stdout
    assert names == "worker/0 worker/1"


def test_tree_of_a_framework_that_has_ended_names_no_object_as_missing(server: Access) -> None:
    volume = {"name": "key", "secret": {"secretName": "ended-gang-key"}}
    spec = {**build_template_wire()["spec"], "serviceAccountName": "trainer", "volumes": [volume]}
    role = build_role_wire(task={"pod": {"spec": spec}})
    http = server.open_http()
    status, body = http.request("POST", GROUP, build_submission("ended", role))
    assert status == 201, body
    wanted = ["Secret/ended-gang-key (missing)", "ServiceAccount/trainer (missing)"]
    for state, objects in (
        (FrameworkState.ATTEMPT_RUNNING, wanted),
        (FrameworkState.COMPLETED, ["Secret/ended-gang-key (deleted with its attempt)"]),
    ):
        body["status"] = build_status_wire(build_role_status(), state=state)
        status, body = http.request("PUT", f"{GROUP}/ended/status", body)
        assert status == 200, body
        shown = json.loads(call(server, "tree", "ended", "-o", "json").stdout)
        assert shown["objects"] == objects
    assert http.request("DELETE", f"{GROUP}/ended")[0] == 200


def test_events_are_those_of_the_gang(server: Access) -> None:
    rows = call(server, "events", "gang").stdout.splitlines()
    assert sorted(row.split()[3] for row in rows[1:]) == ["Framework", "worker/0"]
    warnings = json.loads(call(server, "events", "gang", "--types", "warning", "-o", "json").stdout)
    assert [event["reason"] for event in warnings["items"]] == ["TaskFailed"]


def test_framework_without_events_is_explained(server: Access) -> None:
    result = call(server, "events", "other", "--types", "Warning")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No Events found for Framework other" in result.stderr
