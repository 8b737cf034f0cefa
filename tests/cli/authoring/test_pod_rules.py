"""`framework lint` of Pod templates: fields that an API server refuses, and restart policies."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.authoring import podrules
from cli.authoring.rules import LintOptions, find_refused_templates, lint
from localcluster.apiserver.model.quantities import parse_quantity
from tests.cli.authoring.injected import SPEC, build, find_places, get_spec

MAIN = f"{SPEC}.containers[0]"


def check_refused(framework: dict[str, Any], path: str, fix: str = "") -> None:
    """Check that the only finding is a field that the API server refuses."""
    (found,) = lint(framework, LintOptions())
    assert (found.rule, found.path) == ("pod-template", path)
    assert found.fix.startswith(fix)
    assert find_refused_templates(framework) == [found]


QUOTE = "put it into quotes"
VARIABLE = "write `- {name: NAME, value: TEXT}` for each variable"
PORT = "write `- containerPort: NUMBER` for each port"
NAME_OF_IMAGE = "write it as REGISTRY/NAME:TAG, in lower-case letters and without spaces"
VOLUME = "add it to `volumes` of the Pod's spec"


@pytest.mark.parametrize(
    ("field", "value", "path", "fix"),
    [
        ("env", [{"name": "X", "value": 29501}], "[0].value", QUOTE),
        ("env", [{"name": "X", "value": True}], "[0].value", QUOTE),
        ("env", {"A": "b"}, "", VARIABLE),
        ("env", ["A=b"], "[0]", VARIABLE),
        ("env", [{"value": "b"}], "[0].name", VARIABLE),
        ("command", "python x.py", "", "write a list of strings"),
        ("args", [8080], "[0]", QUOTE),
        ("image", "busy box", "", "write `busybox`"),
        ("image", "BusyBox:1", "", "write `busybox:1`"),
        ("image", " busybox", "", "write `busybox`"),
        ("image", "team//train", "", NAME_OF_IMAGE),
        ("image", "train:", "", NAME_OF_IMAGE),
        ("image", "train:a:b", "", NAME_OF_IMAGE),
        ("image", "train@sha256:12", "", NAME_OF_IMAGE),
        ("image", "https://registry.team/train", "", NAME_OF_IMAGE),
        ("image", "a" * 64, "", NAME_OF_IMAGE),
        ("image", "a" * 256, "", NAME_OF_IMAGE),
        ("image", f"Busy@sha256:{'0' * 10_000}", "", NAME_OF_IMAGE),
        ("ports", [{"containerPort": "80"}], "[0].containerPort", "write 80 without quotes"),
        ("ports", [{"containerPort": "-1"}], "[0].containerPort", "write a number from 1 to 65535"),
        ("ports", [{"containerPort": "http"}], "[0].containerPort", "write a number from 1"),
        ("ports", [{"containerPort": True}], "[0].containerPort", "write a number from 1"),
        ("ports", [{"containerPort": 80.5}], "[0].containerPort", "write a number from 1"),
        ("ports", [{"containerPort": 0}], "[0].containerPort", "write a number from 1 to 65535"),
        ("ports", [{"containerPort": 65536}], "[0].containerPort", "write a number from 1 to"),
        ("ports", [{"containerPort": 80, "hostPort": -1}], "[0].hostPort", "write a number from 0"),
        ("ports", [{"port": 80}], "[0].containerPort", PORT),
        ("ports", [80], "[0]", PORT),
        ("ports", {"containerPort": 80}, "", PORT),
        ("ports", [{"containerPort": 80, "name": "Web_UI"}], "[0].name", "write at most 15"),
        ("ports", [{"containerPort": 80, "name": "80"}], "[0].name", "write at most 15"),
        ("ports", [{"containerPort": 80, "protocol": "tcp"}], "[0].protocol", "write `TCP`"),
        ("volumeMounts", [{"name": "lost", "mountPath": "/lost"}], "[0].name", VOLUME),
        ("volumeMounts", [{"name": "scrtch", "mountPath": "/lost"}], "[0].name", "write `scratch`"),
        ("volumeMounts", [{"name": "scratch"}], "[0].mountPath", "write `- {name:"),
        ("volumeMounts", {"scratch": "/tmp"}, "", "write `- {name:"),
    ],
)
def test_lint_container_that_the_api_server_refuses_is_found(
    field: str, value: Any, path: str, fix: str
) -> None:
    framework = build()
    spec = get_spec([framework])
    spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    spec["containers"][0][field] = value
    check_refused(framework, f"{MAIN}.{field}{path}", fix)


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "team/train:1.0_x-Y",
        "localhost/train",
        "Registry.team:5000/a__b/c.d---e:1",
        "[::1]:5000/train",
        f"{'a' * 64}:1",
        f"registry.team/train:2@sha256:{'0a' * 32}",
        "train-{{FC_TASKROLE_NAME}}: x",
    ],
)
def test_lint_accepts_images_that_a_registry_can_have(image: str) -> None:
    framework = build()
    get_spec([framework])["containers"][0]["image"] = image
    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("selector", "path"), [({"zone": 2}, "nodeSelector[zone]"), (["a"], "nodeSelector")]
)
def test_lint_node_selector_that_the_api_server_refuses_is_found(selector: Any, path: str) -> None:
    framework = build()
    get_spec([framework])["nodeSelector"] = selector
    assert find_places(framework) == [("pod-template", f"{SPEC}.{path}")]


def test_lint_container_that_the_api_server_accepts_is_accepted() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["volumes"] = [{"name": "scratch", "emptyDir": {}}, {"name": "of-worker"}]
    spec["nodeSelector"] = None
    spec["containers"][0] |= {
        "env": [
            {"name": "A", "value": "29501"},
            {"name": "B"},
            {"name": "C", "value": None},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [
            {"containerPort": 1, "name": "http-1", "protocol": "UDP"},
            {"containerPort": 65535, "hostPort": 0},
        ],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "of-{{FC_TASKROLE_NAME}}", "mountPath": "/own"},
        ],
    }
    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("policy", "role", "spec", "is_found"),
    [
        (None, {}, {}, True),
        ("Always", {}, {}, True),
        ("Always", {"minFailedTaskCount": -1, "minSucceededTaskCount": 1}, {}, True),
        ("Never", {}, {}, False),
        # Its successes complete it, and its failures are retried where they are.
        ("OnFailure", {}, {}, False),
        ("Always", {"minFailedTaskCount": -1}, {}, False),
        # Completes for all that.
        ("Always", {}, {"activeDeadlineSeconds": 60}, False),
    ],
)
def test_lint_restarts_that_keep_tasks_from_completing_are_found(
    policy: str | None, role: dict[str, int], spec: dict[str, Any], *, is_found: bool
) -> None:
    framework = build(**({"frameworkAttemptCompletionPolicy": role} if role else {}))
    get_spec([framework]).update(spec, restartPolicy=policy)
    expected = [("restart-policy", f"{SPEC}.restartPolicy")] if is_found else []
    assert find_places(framework) == expected


def test_lint_service_is_restarted_in_place_or_by_the_controller() -> None:
    framework = build()
    framework["spec"]["taskRoles"][0]["task"]["retryPolicy"]["maxRetryCount"] = -2
    get_spec([framework])["restartPolicy"] = "Always"
    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("policy", "fix"),
    [
        ("never", "write `Never`"),
        ("Onfailure", "write `OnFailure`"),
        (False, "write one of Always"),
    ],
)
def test_lint_restart_policy_that_the_api_server_refuses_is_found(policy: Any, fix: str) -> None:
    framework = build()
    get_spec([framework])["restartPolicy"] = policy
    check_refused(framework, f"{SPEC}.restartPolicy", fix)


def test_lint_restart_policy_misspelt_offers_the_field_with_a_value() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["restartpolicy"] = spec.pop("restartPolicy")
    (found,) = lint(framework, LintOptions())
    assert found.fix.startswith("write `restartPolicy: Never` for `restartpolicy`; ")


@pytest.mark.parametrize("quantity", ["16GB", "two", "1 Gi", True, [1], "", "8g", "16K", "1.5.2"])
def test_lint_quantity_that_the_api_server_refuses_is_found(quantity: Any) -> None:
    framework = build()
    get_spec([framework])["containers"][0]["resources"] = {"limits": {"memory": quantity}}
    check_refused(framework, f"{MAIN}.resources.limits[memory]")


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("cpus", 1, "write `cpu`"),
        ("mem", "1Gi", "write `memory`"),
        ("GPU", 1, "write `nvidia.com/gpu`"),
        ("memoryy", 1, "write `memory`"),
        ("rdma", 1, "write cpu, memory, or DOMAIN/NAME"),
        ("nvidia.com/gpu", 0.5, "write a whole number"),
        ("nvidia.com/gpu", "500m", "write a whole number"),
        ("nvidia.com/gpu", "1.50", "write a whole number"),
    ],
)
def test_lint_resource_that_the_api_server_refuses_is_found(
    name: str, value: Any, fix: str
) -> None:
    framework = build()
    get_spec([framework])["containers"][0]["resources"] = {"limits": {name: value}}
    check_refused(framework, f"{MAIN}.resources.limits[{name}]", fix)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("nvidia.com/gpu", value) for value in (1, "2", "1.0", "2000m", "1k", "{{GPUS}}")),
        *(("hugepages-2Mi", "4Mi"), ("ephemeral-storage", "1Gi"), ("kubernetes.io/x", "500m")),
    ],
)
def test_lint_resource_that_the_api_server_accepts_is_accepted(name: str, value: Any) -> None:
    framework = build()
    get_spec([framework])["containers"][0]["resources"] = {"limits": {name: value}}
    assert find_places(framework) == []


@pytest.mark.parametrize(
    "quantity", [1, 0.5, "500m", "16Gi", "1e3", "1E", "2.5G", ".5", "5.", None]
)
def test_lint_quantity_that_the_api_server_accepts_is_accepted(quantity: Any) -> None:
    framework = build()
    main = get_spec([framework])["containers"][0]
    main["resources"] = {"requests": {"memory": quantity}, "limits": {"cpu": "{{FC_TASK_INDEX}}"}}
    assert find_places(framework) == []


@given(
    st.from_regex(
        re.compile(r"[+-]?[0-9.\u0661]{0,4}[KMGTPEinumke+-]{0,3}[0-9]{0,2}"), fullmatch=True
    )
)
def test_lint_accepts_the_quantities_that_the_local_api_server_accepts(quantity: str) -> None:
    try:
        parse_quantity(quantity)
    except ValueError:
        assert not podrules._is_quantity(quantity)
    else:
        assert podrules._is_quantity(quantity)
