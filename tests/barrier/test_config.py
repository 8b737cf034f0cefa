"""The barrier's settings."""

import pytest

from barrier.config import ConfigError, FrameworkJson, load_config
from tests.barrier.test_decision import ENV


def test_load_config_defaults() -> None:
    config = load_config(ENV)
    assert (config.interval_seconds, config.timeout_seconds) == (10, 600)
    assert config.quorum_grace_seconds == 30
    assert config.framework_json is FrameworkJson.AUTO
    assert config.configmap == "f-attempt"
    assert config.working_dir == "/mnt/frameworkbarrier"
    assert config.identity is not None
    assert config.identity.pod_uid == "pod-1"
    assert config.gang.configmap == "f-attempt"
    assert config.expected is None


def test_load_config_without_identity_names_the_missing_variables() -> None:
    env = {k: v for k, v in ENV.items() if k != "FC_POD_UID"}
    config = load_config(env)
    assert config.identity is None
    assert config.missing_identity == ("FC_POD_UID",)
    assert not config.gang.configmap


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BARRIER_CHECK_INTERVAL_SEC", "4"),
        ("BARRIER_CHECK_INTERVAL_SEC", "1_0"),
        ("BARRIER_CHECK_INTERVAL_SEC", " 10"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "59"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "1201"),
        ("BARRIER_CHECK_TIMEOUT_SEC", "1e3"),
        ("BARRIER_QUORUM_GRACE_SEC", "-1"),
        ("BARRIER_FRAMEWORK_JSON", "yes"),
        ("BARRIER_LOG", "xml"),
        ("BARRIER_REQUIRE", "worker=running"),
        ("FC_FRAMEWORK_NAME", "../secrets"),
        ("FC_FRAMEWORK_NAME", ""),
        ("FC_FRAMEWORK_NAMESPACE", ""),
        ("FC_FRAMEWORK_NAMESPACE", "a/b"),
        ("FC_CONFIGMAP_NAME", "x?watch=true"),
        ("FC_TASKROLE_NAME", "a-b"),
        ("FC_TASK_INDEX", "first"),
        ("FC_TASK_INDEX", "10000"),
        ("FC_TASK_ATTEMPT_ID", "-1"),
    ],
)
def test_load_config_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**ENV, name: value})
    assert [f"${name}" in fault for fault in caught.value.faults] == [True]


@pytest.mark.parametrize("value", ["5", "+60", "3600"])
def test_load_config_legal_interval_is_taken(value: str) -> None:
    config = load_config({**ENV, "BARRIER_CHECK_INTERVAL_SEC": value})
    assert config.interval_seconds == int(value)


def test_load_config_reports_all_faults_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"BARRIER_CHECK_TIMEOUT_SEC": "x", "BARRIER_QUORUM_GRACE_SEC": "y"})
    assert len(caught.value.faults) == 4


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"BARRIER_EXPECT": "worker=4"}, ""),
        ({"BARRIER_EXPECT": "ps=1, worker=2"}, ""),
        ({"BARRIER_EXPECT": "worker"}, "is not ROLE=COUNT"),
        ({"BARRIER_EXPECT": "worker=10001"}, "is not ROLE=COUNT"),
        ({"BARRIER_EXPECT": "worker=2,worker=3"}, "given twice"),
        ({"BARRIER_EXPECT": "worker=1"}, "lacks this Pod, worker/1"),
        ({"BARRIER_EXPECT": "ps=1"}, "lacks this Pod, worker/1"),
        ({"BARRIER_EXPECT": "worker=2", "BARRIER_REQUIRE": "ps=dns"}, "lacks; add it there"),
        ({"BARRIER_DNS_NAME": "{role}-{index}.train"}, ""),
        ({"BARRIER_DNS_NAME": "{role}.train"}, "{index}"),
        ({"BARRIER_DNS_NAME": "{role}-{index}.{pod}"}, "{index}"),
        ({"BARRIER_DNS_NAME": "{role}-{index}.$(id)"}, "{index}"),
    ],
)
def test_load_config_dns(env: dict[str, str], expected: str) -> None:
    if not expected:
        assert load_config({**ENV, **env}).dns_name
        return
    with pytest.raises(ConfigError) as caught:
        load_config({**ENV, **env})
    assert expected in str(caught.value)
