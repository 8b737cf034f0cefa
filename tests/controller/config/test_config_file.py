from collections.abc import Callable
from pathlib import Path

import pytest

from controller.config.config_file import (
    CONFIG_FILE_ENV,
    ControllerConfig,
    LoadedConfig,
    LogObjectSnapshot,
    load_config,
)
from controller.config.nodes import DEFAULT_LEAVE_TAINTS, MAX_LEAVE_TAINTS, NodesConfig
from controller.config.pod_failure import Regex
from framework.api.completion import ContainerPattern, IntRange, PodPattern
from framework.api.fielderrors import FieldErrors
from framework.api.nodes import Taint
from tests.support.builders.cases import cases

Load = Callable[..., LoadedConfig]

# code -> (phrase, attributes) of the original's default config, in its order.
ORIGINAL_TABLE: dict[int, tuple[str, tuple[str, ...] | None]] = {
    -1000: ("PodEvicted", ("Transient",)),
    -1001: ("PodNodeLost", ("Transient",)),
    -1002: ("PodScheduledToInsufficientResourceNode", ("Transient",)),
    -1003: ("PodPreemptedForCriticalPod", ("Transient",)),
    -1004: ("PodDeadlineExceeded", ("Permanent",)),
    -1005: ("PodNodeAdmissionForbidden", ("Permanent",)),
    -1006: ("PodNodeAdmissionUnexpectedError", ("Transient",)),
    -1200: ("ContainerDockerOOMKilled", ("Permanent",)),
    -1201: ("ContainerDockerCreationError", None),
    -1202: ("ContainerDockerStartCmdPermissionDenied", ("Permanent",)),
    -1203: ("ContainerDockerStartCmdNotFound", ("Permanent",)),
    -1204: ("ContainerDockerStartUnknownError", None),
    130: ("ContainerSigIntReceived", ("Transient",)),
    131: ("ContainerSigQuitReceived", ("Transient",)),
    132: ("ContainerSigIllReceived", ("Permanent",)),
    134: ("ContainerSigAbrtReceived", None),
    135: ("ContainerSigBusReceived", ("Permanent",)),
    136: ("ContainerSigFpeReceived", ("Permanent",)),
    137: ("ContainerSigKillReceived", ("Transient",)),
    139: ("ContainerSigSegvReceived", ("Permanent",)),
    141: ("ContainerSigPipeReceived", ("Permanent",)),
    143: ("ContainerSigTermReceived", ("Transient",)),
}


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_text(text: str, *, strict: bool = False) -> LoadedConfig:
        file = tmp_path / "config.yaml"
        file.write_text(text)
        return load_config(str(file), {}, strict=strict)

    return load_text


def test_load_config_without_file_has_the_original_table_first() -> None:
    rules = load_config(None, {}, strict=True).config.pod_failure_rules
    table = {rule.code: (rule.phrase, rule.type.attributes) for rule in rules}
    codes = [rule.code for rule in rules]
    assert codes[: len(ORIGINAL_TABLE)] == list(ORIGINAL_TABLE)
    assert {code: table[code] for code in ORIGINAL_TABLE} == ORIGINAL_TABLE
    assert set(codes[len(ORIGINAL_TABLE) :]) == {
        -1007, -1008, -1009, -1010, -1400, -1401, -1402, -1403,
    }  # fmt: skip


def test_load_config_without_file_keeps_the_patterns_of_the_original() -> None:
    rules = {r.code: r for r in load_config(None, {}, strict=True).config.pod_failure_rules}
    everything = Regex("(?ms).*")
    assert rules[-1002].patterns == (
        PodPattern(reason=Regex(r"(?i)^OutOf\S+$"), message=everything),
    )
    assert rules[-1203].patterns[1] == PodPattern(
        containers=(
            ContainerPattern(
                name=everything,
                reason=Regex("(?i)^ContainerCannotRun$"),
                message=Regex("(?msi).*(not found|cannot find|no such).*"),
                code=IntRange(128, 128),
            ),
        )
    )
    assert rules[-1200].patterns[0].containers[0].code == IntRange(1, None)


def test_load_config_of_a_file_without_pod_failure_spec_has_no_rules(load: Load) -> None:
    assert load("workerNumber: 3\n").config == ControllerConfig(worker_number=3)


def test_load_config_of_an_empty_file_has_the_defaults(load: Load) -> None:
    config = load("").config
    assert config == ControllerConfig()
    assert config.kube_client_qps == 1000
    assert config.framework_completed_retain_seconds == 2592000
    assert config.conflict_retry_delay_min_seconds == 60
    assert config.conflict_retry_delay_max_seconds == 900


def test_load_config_reads_every_key(load: Load) -> None:
    loaded = load(
        """
        kubeApiServerAddress: http://10.10.10.10:8080
        kubeConfigFilePath: /etc/kubeconfig
        kubeClientQps: 200
        kubeClientBurst: 300
        workerNumber: 500
        largeFrameworkCompression: false
        crdEstablishedCheckIntervalSec: 2
        crdEstablishedCheckTimeoutSec: 30
        objectLocalCacheCreationTimeoutSec: 90
        frameworkCompletedRetainSec: 100
        frameworkMinRetryDelaySecForTransientConflictFailed: 1
        frameworkMaxRetryDelaySecForTransientConflictFailed: 2
        retryBackoffThresholdSec: 20
        retryBackoffMaxSec: 0
        frameworkMaxTaskRoles: 300
        frameworkMaxTasks: 20000
        frameworkMaxBytes: 2000000
        memoryLimitBytes: 0
        memoryAdmissionPercent: 70
        watchNodes: true
        leaveOnCordon: false
        leaveTaints: ["example.com/maintenance:NoExecute", "a"]
        logObjectSnapshot:
          framework: {onFrameworkRetry: false, onFrameworkDeletion: false}
          task: {onTaskRetry: false, onTaskDeletion: false}
          pod: {onPodDeletion: false}
        podFailureSpec: []
        """,
        strict=True,
    )
    assert loaded.warnings == ()
    assert loaded.config == ControllerConfig(
        kube_api_server_address="http://10.10.10.10:8080",
        kube_config_file_path="/etc/kubeconfig",
        kube_client_qps=200.0,
        kube_client_burst=300,
        worker_number=500,
        large_framework_compression=False,
        crd_established_check_interval_seconds=2,
        crd_established_check_timeout_seconds=30,
        framework_completed_retain_seconds=100,
        conflict_retry_delay_min_seconds=1,
        conflict_retry_delay_max_seconds=2,
        retry_backoff_threshold_seconds=20,
        retry_backoff_max_seconds=0,
        framework_max_task_roles=300,
        framework_max_tasks=20000,
        framework_max_bytes=2000000,
        memory_limit_bytes=0,
        memory_admission_percent=70,
        nodes=NodesConfig(
            is_watched=True,
            leaves_on_cordon=False,
            leave_taints=(Taint("example.com/maintenance", "NoExecute"), Taint("a")),
        ),
        log_object_snapshot=LogObjectSnapshot(
            on_framework_retry=False,
            on_framework_deletion=False,
            on_task_retry=False,
            on_task_deletion=False,
            on_pod_deletion=False,
        ),
    )


def test_load_config_with_several_faults_tells_all_with_path_and_remedy(load: Load) -> None:
    with pytest.raises(FieldErrors) as caught:
        load(
            """
            kubeClientQps: 0
            kubeClientBurst: 10001
            workerNumber: many
            crdEstablishedCheckTimeoutSec: 9
            frameworkMaxRetryDelaySecForTransientConflictFailed: 5
            largeFrameworkCompression: 1
            frameworkMaxTaskRoles: 0
            frameworkMaxTasks: 1000001
            frameworkMaxBytes: 100
            memoryLimitBytes: 1Gi
            memoryAdmissionPercent: 101
            podFailureSpec:
            - code: 200
              podPatterns: [{nameRegex: '('}]
            - phrase: NoCode
              type: {name: Succeeded}
              podPatterns: []
            - code: -1500
              podPatterns: [null]
            """
        )
    assert [str(error) for error in caught.value.errors] == [
        (
            "frameworkMaxRetryDelaySecForTransientConflictFailed: 5 is less than "
            "frameworkMinRetryDelaySecForTransientConflictFailed 60; give at least 60"
        ),
        "kubeClientQps: 0 is out of range; give a number of (0, 10000], or unlimited",
        "kubeClientBurst: 10001 is out of range; give a whole number of [0, 10000]",
        (
            "workerNumber: must be an integer, not string 'many'; "
            "give a whole number of [1, 2147483647]"
        ),
        "largeFrameworkCompression: must be true or false, not number 1",
        "crdEstablishedCheckTimeoutSec: 9 is out of range; give a whole number of at least 10",
        "frameworkMaxTaskRoles: 0 is out of range; give a whole number of [1, 65536]",
        "frameworkMaxTasks: 1000001 is out of range; give a whole number of [1, 1000000]",
        "frameworkMaxBytes: 100 is out of range; give a whole number of [65536, 2147483647]",
        (
            "memoryLimitBytes: must be an integer, not string '1Gi'; "
            "give a whole number of at least 0"
        ),
        "memoryAdmissionPercent: 101 is out of range; give a whole number of [10, 100]",
        "podFailureSpec[0].code: 200 is reserved; give a code outside [-999, 0], [200, 219]",
        (
            "podFailureSpec[0].podPatterns[0].nameRegex: is not a valid regular expression of RE2: "
            "missing ): (; correct '('"
        ),
        "podFailureSpec[1].code: is required; give the completion code of this rule",
        (
            "podFailureSpec[1].type.name: must be Failed, got 'Succeeded'; "
            "remove it, Failed is the default"
        ),
        "podFailureSpec[1].podPatterns: must not be empty; give at least one pattern",
        (
            "podFailureSpec[2].podPatterns[0]: must be an object, not null; "
            "give items with keys and values"
        ),
        "podFailureSpec[2].podPatterns: must not be empty; give at least one pattern",
    ]


@cases("code", lowest=-999, minus_one=-1, zero=0, container=200, last=219)
def test_load_config_with_a_reserved_code_refuses_it(load: Load, code: int) -> None:
    with pytest.raises(FieldErrors, match="is reserved"):
        load(f"podFailureSpec: [{{code: {code}, podPatterns: [{{nameRegex: a}}]}}]")


def test_load_config_with_a_repeated_code_names_the_first(load: Load) -> None:
    rule = "{code: 220, podPatterns: [{nameRegex: a}]}"
    with pytest.raises(FieldErrors, match=r"podFailureSpec\[1\].code: 220 is already defined at "):
        load(f"podFailureSpec: [{rule}, {rule}]")


@cases(
    "text attributes",
    no_type=("", None),
    empty_type=("type: {}, ", None),
    empty_attributes=("type: {attributes: []}, ", ()),
    attributes=(
        "type: {name: Failed, attributes: [Transient, Conflict]}, ",
        ("Transient", "Conflict"),
    ),
)
def test_load_config_keeps_null_and_empty_apart(
    load: Load, text: str, attributes: tuple[str, ...] | None
) -> None:
    config = load(f"podFailureSpec: [{{code: 220, {text}podPatterns: [{{nameRegex: a}}]}}]").config
    assert config.pod_failure_rules[0].type.name == "Failed"
    assert config.pod_failure_rules[0].type.attributes == attributes


def test_load_config_with_an_unknown_attribute_warns(load: Load) -> None:
    loaded = load(
        "podFailureSpec:\n"
        "- {code: 220, type: {attributes: [Lasting]}, podPatterns: [{nameRegex: a}]}"
    )
    assert str(loaded.warnings[0]).startswith(
        "podFailureSpec[0].type.attributes: 'Lasting' has no meaning to retries"
    )


def test_load_config_with_unknown_keys_warns_of_each(load: Load) -> None:
    loaded = load(
        """
        wokerNumber: 3
        logObjectSnapshot: {task: {onTaskStart: true}}
        podFailureSpec: [{code: 220, podPatterns: [{containers: [{regex: a}]}]}]
        """
    )
    assert sorted(warning.path for warning in loaded.warnings) == [
        "logObjectSnapshot.task.onTaskStart",
        "podFailureSpec[0].podPatterns[0].containers[0].regex",
        "wokerNumber",
    ]
    assert loaded.config.worker_number == 200


@cases(
    "text message",
    no_yaml=("a: [1", r"config.yaml:1:\d+: "),
    duplicate_key=(
        "workerNumber: 1\nworkerNumber: 2\n",
        "config.yaml:2:1: key 'workerNumber' is given twice",
    ),
    a_list=("- 1\n", "must be a mapping"),
    two_documents=("a: 1\n---\nb: 2\n", "config.yaml:3: a second document"),
)
def test_load_config_of_another_text_names_the_place(load: Load, text: str, message: str) -> None:
    with pytest.raises(FieldErrors, match=message):
        load(text)


def test_load_config_without_flag_takes_the_file_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "named.yaml"
    file.write_text("workerNumber: 7\n")
    loaded = load_config(None, {CONFIG_FILE_ENV: str(file)}, strict=False)
    assert loaded.config.worker_number == 7
    assert loaded.source == str(file)


def test_load_config_with_null_values_takes_the_defaults(load: Load) -> None:
    text = "workerNumber: null\nlogObjectSnapshot: ~\npodFailureSpec:\nkubeClientQps:\n"
    assert load(text, strict=True).config == ControllerConfig()


@cases(
    "text qps burst",
    default=("{}", 1000, 1500),
    the_originals=("kubeClientQps: 80", 80, 120),
    less_than_one=("kubeClientQps: 0.5", 0.5, 1),
    burst_is_bounded=("kubeClientQps: 9000", 9000, 10000),
    burst_only=("kubeClientBurst: 7", 1000, 7),
    no_limit=("kubeClientQps: unlimited", None, 1500),
)
def test_request_rate_brings_a_burst(load: Load, text: str, qps: float | None, burst: int) -> None:
    config = load(text, strict=True).config
    assert (config.kube_client_qps, config.kube_client_burst) == (qps, burst)


@cases(
    "text fault",
    infinite=("kubeClientQps: .inf", "kubeClientQps: inf is out of range"),
    no_number=("kubeClientQps: .nan", "kubeClientQps: nan is out of range"),
    huge=(f"kubeClientQps: 1{'0' * 400}", "kubeClientQps: 10+ is out of range"),
    negative_limit=("memoryLimitBytes: -1", "memoryLimitBytes: -1 is out of range"),
    no_list=("podFailureSpec: {}", "podFailureSpec: must be an array, not object; give items"),
    no_section=("logObjectSnapshot: 1", "logObjectSnapshot: must be an object, not number 1; give"),
    no_text=("kubeConfigFilePath: true", "must be a string, not boolean True; put it into quotes"),
    item_of_texts=("kinds: [tfjob, 3]", r"kinds\[1\]: must be a string, not number 3; give a list"),
    beyond_64_bits=(f"workerNumber: {2**63}", "workerNumber: does not fit 64 bits; give a whole"),
)
def test_load_config_with_another_type_or_size_refuses_it(
    load: Load, text: str, fault: str
) -> None:
    with pytest.raises(FieldErrors, match=fault):
        load(text)


def test_taints_that_are_none_are_faults(load: Load) -> None:
    with pytest.raises(FieldErrors) as caught:
        load("leaveTaints: ['a:Never', ':NoSchedule', 'a:', good]\n")
    paths = [error.path for error in caught.value.errors]
    assert paths == ["leaveTaints[0]", "leaveTaints[1]", "leaveTaints[2]"]
    with pytest.raises(FieldErrors):
        load(f"leaveTaints: {['a'] * (MAX_LEAVE_TAINTS + 1)}\n")


def test_no_taints_or_those_of_termination_handlers(load: Load) -> None:
    assert load("leaveTaints: []\n").config.nodes.leave_taints == ()
    keys = {taint.key for taint in DEFAULT_LEAVE_TAINTS}
    assert load("").config.nodes == NodesConfig(leave_taints=DEFAULT_LEAVE_TAINTS)
    assert {"node.kubernetes.io/out-of-service", "karpenter.sh/disrupted"} < keys
    assert not keys & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
