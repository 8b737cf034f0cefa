import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api.naming import (
    TaskKey,
    build_configmap_name,
    build_instance_uid,
    build_pod_name,
    is_framework_name,
    is_role_name,
    parse_pod_name,
)
from tests.support.builders.strategies import framework_names, role_names


@given(framework_names, role_names, st.integers(0, 9999))
def test_pod_name_built_and_parsed_is_the_same_task(framework: str, role: str, index: int) -> None:
    name = build_pod_name(framework, role, index)
    assert parse_pod_name(name) == (framework, TaskKey(role, index))


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a-b-c-0", ("a-b", TaskKey("c", 0))),
        ("gang-worker-10", ("gang", TaskKey("worker", 10))),
        ("a--b-0", ("a-", TaskKey("b", 0))),
        ("gang-worker-01", None),
        ("gang-worker-", None),
        ("gang-worker", None),
        ("gang-Worker-0", None),
        ("gang--0", ("gang", TaskKey("", 0))),
        ("-worker-0", None),
        ("gang-worker-0\n", None),
        ("gang-attempt", None),
        ("", None),
    ],
)
def test_parse_pod_name_table(name: str, parsed: tuple[str, TaskKey] | None) -> None:
    assert parse_pod_name(name) == parsed


@pytest.mark.parametrize(
    ("name", "is_framework", "is_role"),
    [
        ("a", True, True),
        ("0", True, True),
        ("a-b", True, False),
        ("a" * 63, True, True),
        ("a" * 64, False, False),
        ("-a", False, False),
        ("a-", False, False),
        ("a.b", False, False),
        ("A", False, False),
        ("a_b", False, False),
        ("é", False, False),
        ("٣", False, False),
        ("a\n", False, False),
        ("", False, False),
    ],
)
def test_names_table(name: str, *, is_framework: bool, is_role: bool) -> None:
    assert is_framework_name(name) is is_framework
    assert is_role_name(name) is is_role


def test_built_names_are_those_of_the_original() -> None:
    assert build_configmap_name("gang") == "gang-attempt"
    assert build_instance_uid(3, "1b-2c") == "3_1b-2c"
    assert str(TaskKey("worker", 3)) == "worker/3"
