"""The config file of the Go original, read into one frozen value.

Names, defaults and rules are those of microsoft/frameworkcontroller
``config.go``; where the default differs, the field says so. All faults are reported together, with
path and remedy. ``framework.kube.config.load_kube_config`` chooses the API server; ``app`` has the
flags of the command line.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from controller.config.field_reader import Faults, FieldReader
from controller.config.nodes import NodesConfig, read_nodes
from controller.config.pod_failure import read_rules
from framework.api import constants
from framework.api.completion import CompletionCodeRule
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.wire import INT64_MAX
from framework.strictyaml import YamlError, load_documents

CONFIG_FILE_ENV = "FRAMEWORKCONTROLLER_CONFIG"
"""Variable with the path of the config file, if no flag has it."""

KIND_NAMES = ("tfjob", "trainingjob")
"""Kinds of jobs that can be switched on."""

_SHIPPED = Path(__file__).with_name("default-config.yaml")
_DAY_SECONDS = 24 * 3600
_INT32_MAX = 2**31 - 1
_MOST_ROLES = 65_536
_MOST_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class LogObjectSnapshot:
    """The events at which the snapshot of an object is logged, for collectors of history."""

    on_framework_retry: bool = True
    on_framework_deletion: bool = True
    on_task_retry: bool = True
    on_task_deletion: bool = True
    """Only deletions by a scale-down."""
    on_pod_deletion: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of the config file. The defaults are for keys that the file does not have."""

    kube_api_server_address: str | None = None
    """``http[s]://HOST:PORT``; overrides the kubeconfig's server. None: see load_kube_config."""
    kube_config_file_path: str | None = None
    """None: see load_kube_config."""
    kube_client_qps: float | None = 1000.0
    """Requests a second, of (0, 10000]; None for no limit. The default is more than thousands of
    busy Frameworks need, and less than an API server can answer. In the original it is 80."""
    kube_client_burst: int = 1500
    """Requests that are sent without a pause before the rate applies. If a file has only the rate,
    it is 1.5 times this rate, as the default of the original: 120 for a rate of 80."""
    worker_number: int = 200
    """Most Frameworks that are decided at the same time. ``controller.MAX_WORKERS`` limits it."""
    large_framework_compression: bool = True
    """Whether a large status is stored compressed: without it a gang of some hundred Tasks can
    outgrow the limit of the server (the original: off)."""
    crd_established_check_interval_seconds: int = 1
    """Time between two checks of a CRD that is not established yet."""
    crd_established_check_timeout_seconds: int = 60
    """Time after which the controller ends, if the CRD is not established."""
    framework_completed_retain_seconds: int = 30 * _DAY_SECONDS
    """How long a completed Framework is kept before it is deleted."""
    conflict_retry_delay_min_seconds: int = 60
    """Least delay before the retry of a Framework that lost a race for resources with another."""
    conflict_retry_delay_max_seconds: int = 900
    """Greatest such delay; the random difference ends the deadlock of two gangs."""
    retry_backoff_threshold_seconds: int = 10
    """An attempt that ends sooner after its start counts for the pause of retries."""
    retry_backoff_max_seconds: int = 300
    """Greatest pause before a retry after three such attempts in a row; 0: no pauses, as in the
    original."""
    framework_max_task_roles: int = constants.MAX_TASK_ROLES
    """Most roles of one Framework. A Framework with more is Blocked before it starts."""
    framework_max_tasks: int = constants.MAX_TASKS
    """Most Tasks of one Framework in all of its roles, absent ones included."""
    framework_max_bytes: int = constants.MAX_OBJECT_BYTES
    """Largest Framework that the API server stores, with its status."""
    memory_limit_bytes: int | None = None
    """Memory limit of this process. None: the limit of its cgroups; 0: no limit."""
    memory_admission_percent: int = 80
    """While more than this share of the memory limit is used or promised, no Framework starts."""
    kinds: tuple[str, ...] = ()
    """Other kinds of jobs that this controller runs: ``tfjob``, ``trainingjob``."""
    nodes: NodesConfig = field(default_factory=NodesConfig)
    """Which nodes Tasks leave."""
    log_object_snapshot: LogObjectSnapshot = LogObjectSnapshot()
    """Which snapshots of objects are logged."""
    pod_failure_rules: tuple[CompletionCodeRule, ...] = ()
    """``podFailureSpec``, tried in order after the predefined container codes."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A config, and warnings for its author."""

    config: ControllerConfig
    warnings: tuple[FieldError, ...]
    source: str
    """Name of the file, for messages."""


def load_config(path: str | None, env: Mapping[str, str], *, strict: bool) -> LoadedConfig:
    """Load the config file.

    The file is ``path``, else ``$FRAMEWORKCONTROLLER_CONFIG``, else the file of this program. The
    podFailureSpec of the latter has the rules of the original's default config, and rules for newer
    kubelets and containerd. Another file without podFailureSpec has no rules.

    Args:
        path: the file of the command line; None if there is none.
        env: environment.
        strict: whether an unknown key is an error instead of a warning.

    Raises:
        FieldErrors: every fault of the file, each with its path and remedy.
    """
    named = path or env.get(CONFIG_FILE_ENV) or None
    file = Path(named) if named else _SHIPPED
    faults = Faults()
    config = _read_config(FieldReader(_load_mapping(file), "", faults))
    errors = faults.errors + (faults.unknown_keys if strict else [])
    if errors:
        raise FieldErrors(errors)
    return LoadedConfig(config, tuple(faults.warnings + faults.unknown_keys), str(file))


def _load_mapping(file: Path) -> Mapping[str, object]:
    try:
        text = file.read_text("utf-8")
    except OSError as e:
        message = f"cannot read {file}: {e.strerror}; give a readable file with --config"
        raise FieldErrors([FieldError("", message)]) from e
    except UnicodeDecodeError as e:
        message = f"{file} is not valid UTF-8: {e.reason} at byte {e.start}; save it as UTF-8"
        raise FieldErrors([FieldError("", message)]) from e
    try:
        documents = load_documents(text, str(file))
    except YamlError as e:
        raise FieldErrors([FieldError("", str(e))]) from e
    if not documents:
        return {}
    if len(documents) > 1:
        message = f"{file}:{documents[1].line}: a second document; a config file has one"
        raise FieldErrors([FieldError("", message)])
    if not isinstance(documents[0].value, dict):
        message = f"{file}: must be a mapping of keys to values; see docs/config.md"
        raise FieldErrors([FieldError("", message)])
    return documents[0].value


# Whole numbers by their field: the key, the least and the greatest value.
_NUMBERS: dict[str, tuple[str, int | None, int]] = {
    "worker_number": ("workerNumber", 1, _INT32_MAX),
    "crd_established_check_interval_seconds": ("crdEstablishedCheckIntervalSec", 1, INT64_MAX),
    "crd_established_check_timeout_seconds": ("crdEstablishedCheckTimeoutSec", 10, INT64_MAX),
    "framework_completed_retain_seconds": ("frameworkCompletedRetainSec", None, INT64_MAX),
    "retry_backoff_threshold_seconds": ("retryBackoffThresholdSec", 0, _DAY_SECONDS),
    "retry_backoff_max_seconds": ("retryBackoffMaxSec", 0, _DAY_SECONDS),
    "framework_max_task_roles": ("frameworkMaxTaskRoles", 1, _MOST_ROLES),
    "framework_max_tasks": ("frameworkMaxTasks", 1, _MOST_TASKS),
    "framework_max_bytes": ("frameworkMaxBytes", 64 * 1024, _INT32_MAX),
    "memory_admission_percent": ("memoryAdmissionPercent", 10, 100),
}


def _read_config(reader: FieldReader) -> ControllerConfig:
    default = ControllerConfig()
    read_number = partial(_read_number, reader, default)
    delay_min, delay_max = _read_conflict_delays(reader, default)
    qps, burst = _read_request_rate(reader, default)
    config = ControllerConfig(
        kube_api_server_address=reader.read_text("kubeApiServerAddress") or None,
        kube_config_file_path=reader.read_text("kubeConfigFilePath") or None,
        kube_client_qps=qps,
        kube_client_burst=burst,
        worker_number=read_number("worker_number"),
        large_framework_compression=reader.read_bool(
            "largeFrameworkCompression", default=default.large_framework_compression
        ),
        conflict_retry_delay_min_seconds=delay_min,
        conflict_retry_delay_max_seconds=delay_max,
        crd_established_check_interval_seconds=read_number(
            "crd_established_check_interval_seconds"
        ),
        crd_established_check_timeout_seconds=read_number("crd_established_check_timeout_seconds"),
        framework_completed_retain_seconds=read_number("framework_completed_retain_seconds"),
        retry_backoff_threshold_seconds=read_number("retry_backoff_threshold_seconds"),
        retry_backoff_max_seconds=read_number("retry_backoff_max_seconds"),
        framework_max_task_roles=read_number("framework_max_task_roles"),
        framework_max_tasks=read_number("framework_max_tasks"),
        framework_max_bytes=read_number("framework_max_bytes"),
        memory_limit_bytes=_read_memory_limit(reader),
        memory_admission_percent=read_number("memory_admission_percent"),
        kinds=_read_kinds(reader),
        nodes=read_nodes(reader),
        log_object_snapshot=_read_snapshot_switches(reader.read_section("logObjectSnapshot")),
        pod_failure_rules=read_rules(reader),
    )
    # Accepted for files of the original, and unused: a live GET by name decides whether a created
    # object exists that no watch has shown.
    reader.read_int("objectLocalCacheCreationTimeoutSec", 300, 60, INT64_MAX)
    reader.report_unknown_keys()
    return config


def _read_number(reader: FieldReader, default: ControllerConfig, name: str) -> int:
    key, least, most = _NUMBERS[name]
    return reader.read_int(key, getattr(default, name), least, most)


def _read_request_rate(reader: FieldReader, default: ControllerConfig) -> tuple[float | None, int]:
    qps = reader.read_rate("kubeClientQps", 10000, default=default.kube_client_qps)
    burst = default.kube_client_burst if qps is None else min(10000, math.ceil(1.5 * qps))
    return qps, reader.read_int("kubeClientBurst", burst, 0, 10000)


def _read_conflict_delays(reader: FieldReader, default: ControllerConfig) -> tuple[int, int]:
    low_key = "frameworkMinRetryDelaySecForTransientConflictFailed"
    high_key = "frameworkMaxRetryDelaySecForTransientConflictFailed"
    low = reader.read_int(low_key, default.conflict_retry_delay_min_seconds, 0)
    high = reader.read_int(high_key, default.conflict_retry_delay_max_seconds, 0)
    if high < low:
        reader.fail(high_key, f"{high} is less than {low_key} {low}; give at least {low}")
    return low, high


def _read_memory_limit(reader: FieldReader) -> int | None:
    limit = reader.read_int("memoryLimitBytes", -1, 0)
    return None if limit < 0 else limit


def _read_kinds(reader: FieldReader) -> tuple[str, ...]:
    names = reader.read_texts("kinds") or ()
    problem = find_kind_problem(names)
    if problem:
        reader.fail("kinds", problem)
    return names


def find_kind_problem(names: Sequence[str]) -> str:
    """Describe the first name that is not a kind of job; "" if there is none."""
    for name in names:
        if name not in KIND_NAMES:
            return f"{name!r} is no kind of job; give some of {', '.join(KIND_NAMES)}"
    return ""


def _read_snapshot_switches(section: FieldReader) -> LogObjectSnapshot:
    framework, task, pod = (section.read_section(key) for key in ("framework", "task", "pod"))
    switches = LogObjectSnapshot(
        on_framework_retry=framework.read_bool("onFrameworkRetry", default=True),
        on_framework_deletion=framework.read_bool("onFrameworkDeletion", default=True),
        on_task_retry=task.read_bool("onTaskRetry", default=True),
        on_task_deletion=task.read_bool("onTaskDeletion", default=True),
        on_pod_deletion=pod.read_bool("onPodDeletion", default=True),
    )
    for part in (section, framework, task, pod):
        part.report_unknown_keys()
    return switches
