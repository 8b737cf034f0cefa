"""The settings of the barrier, from environment variables. Pure.

``load_config`` reports all faults together. The settings of the API server are read by
``framework.agent.discovery``.
"""

import enum
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from barrier.requirements import (
    RequireError,
    Requirement,
    find_own_cycle,
    parse_requirements,
)
from framework.agent.dns_source import (
    DEFAULT_NAME,
    ExpectedGang,
    ExpectedGangError,
    read_expected,
    read_pattern,
)
from framework.agent.gang import Gang
from framework.api import constants
from framework.api.naming import (
    build_configmap_name,
    is_framework_name,
    is_object_name,
    is_role_name,
)

AUTO_FRAMEWORK_JSON_TASKS = 100

T = TypeVar("T")

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
_IDENTITY_ENVS = (
    constants.FRAMEWORK_ATTEMPT_INSTANCE_UID,
    constants.CONFIGMAP_UID,
    constants.TASKROLE_NAME,
    constants.TASK_INDEX,
    constants.TASK_ATTEMPT_ID,
    constants.POD_UID,
)


class ConfigError(ValueError):
    """The settings are invalid; ``faults`` has a line for each fault, with its remedy."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class FrameworkJson(enum.Enum):
    """Whether framework.json is written; AUTO: up to 100 Tasks, or without a published roster."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Identity(NamedTuple):
    """The Task attempt and the Framework attempt of this Pod."""

    instance_uid: str
    """Instance UID of the Framework attempt."""
    configmap_uid: str
    """UID of the attempt ConfigMap."""
    role: str
    """Role of the Task."""
    task_index: int
    """Index of the Task in its role."""
    task_attempt_id: int
    """Number of the attempt of the Task."""
    pod_uid: str
    """UID of this Pod."""


class Config(NamedTuple):
    """The settings."""

    namespace: str
    """Namespace of the Framework."""
    framework: str
    """Name of the Framework."""
    configmap: str
    """Name of the attempt ConfigMap."""
    identity: Identity | None
    """The attempt of this Pod; None in a Pod that was not created by a controller."""
    missing_identity: tuple[str, ...]
    """The identity variables that are not set."""
    interval_seconds: int
    """Seconds between status lines, and until an unreachable source is replaced by the next."""
    timeout_seconds: int
    """Seconds until an incomplete gang fails the barrier."""
    quorum_grace_seconds: int
    """Seconds that a complete quorum waits for the other Tasks."""
    framework_json: FrameworkJson
    """Whether framework.json is written."""
    working_dir: str
    """Directory of the files."""
    termination_log: str
    """Path of the termination message."""
    is_json_log: bool
    """Whether log lines are JSON objects."""
    requirements: tuple[Requirement, ...]
    """Required levels of roles."""
    dns_name: str
    """Pattern of the Pods' DNS names."""
    expected: ExpectedGang | None
    """The gang to look up in DNS; None if DNS is not a source."""

    @property
    def gang(self) -> Gang:
        """The gang to observe; without an identity, no ConfigMap is of the own attempt."""
        identity = self.identity
        return Gang(
            namespace=self.namespace,
            framework=self.framework,
            configmap="" if identity is None else self.configmap,
            configmap_uid="" if identity is None else identity.configmap_uid,
            expected=self.expected,
            fallback_seconds=float(self.interval_seconds),
        )


def _parse_log(text: str) -> bool:
    if text not in {"text", "json"}:
        raise ValueError(text)
    return text == "json"


class _Reader:
    """Reads variables and collects the faults."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.faults: list[str] = []

    def read_text(self, name: str, default: str = "") -> str:
        return self._env.get(name) or default

    def read(self, name: str, default: str, parse: Callable[[str], T], form: str) -> T:
        """Read a variable; ``parse`` raises ValueError if the text does not have this ``form``."""
        text = self._env.get(name) or default
        try:
            return parse(text)
        except ValueError:
            self.faults.append(f"${name} is {text!r}; set it to {form}, or unset it")
            return parse(default)

    def read_number(self, name: str, default: int, low: int, high: int | None = None) -> int:
        def parse(text: str) -> int:
            number = int(text) if _INTEGER.match(text) else low - 1
            if number < low or (high is not None and number > high):
                raise ValueError(text)
            return number

        span = f"at least {low}" if high is None else f"from {low} to {high}"
        return self.read(name, str(default), parse, f"a whole number {span}")

    def check(self, name: str, text: str, *, is_valid: bool, kind: str) -> None:
        if not text:
            self.faults.append(
                f"${name} is not set; the controller sets it in every container of its Pods, in "
                "other Pods set it yourself"
            )
        elif not is_valid:
            self.faults.append(
                f"${name} is {text!r}, which is not a valid name of a {kind}; correct it"
            )

    def read_requirements(self, own_role: str) -> tuple[Requirement, ...]:
        name = constants.BARRIER_REQUIRE_ENV
        try:
            requirements = parse_requirements(self._env.get(name, ""))
        except RequireError as e:
            self.faults.append(f"${name}: {e}; correct it, or unset it")
            return ()
        cycle = find_own_cycle(requirements, own_role)
        if cycle:
            self.faults.append(f"${name}: {cycle}")
        return requirements

    def read_dns_name(self) -> str:
        try:
            return read_pattern(self._env)
        except ExpectedGangError as e:
            self.faults.append(str(e))
            return DEFAULT_NAME

    def read_expected(self, required: tuple[Requirement, ...]) -> ExpectedGang | None:
        try:
            expected = read_expected(self._env)
        except ExpectedGangError as e:
            # `read_dns_name` may have reported the same fault.
            self.faults += [] if str(e) in self.faults else [str(e)]
            return None
        counts = dict(expected.roles) if expected is not None else {}
        for requirement in required if expected is not None else ():
            if requirement.role not in counts:
                self.faults.append(
                    f"${constants.BARRIER_REQUIRE_ENV}: {requirement} is about a role that "
                    f"${constants.BARRIER_EXPECT_ENV} lacks; add it there"
                )
        return expected


def load_config(env: Mapping[str, str]) -> Config:
    """Read the settings.

    Raises:
        ConfigError: At least one setting is invalid.
    """
    reader = _Reader(env)
    namespace = reader.read_text(constants.FRAMEWORK_NAMESPACE)
    framework = reader.read_text(constants.FRAMEWORK_NAME)
    configmap = reader.read_text(constants.CONFIGMAP_NAME, build_configmap_name(framework))
    _check_names(reader, namespace, framework, configmap)
    missing = tuple(name for name in _IDENTITY_ENVS if not env.get(name))
    identity = None if missing else _read_identity(reader)
    is_json_log = reader.read(constants.BARRIER_LOG_ENV, "text", _parse_log, "text or json")
    dns_name = reader.read_dns_name()
    requirements = reader.read_requirements(env.get(constants.TASKROLE_NAME, ""))
    config = Config(
        namespace=namespace,
        framework=framework,
        configmap=configmap,
        identity=identity,
        missing_identity=missing,
        interval_seconds=reader.read_number(constants.BARRIER_CHECK_INTERVAL_ENV, 10, 5),
        timeout_seconds=reader.read_number(constants.BARRIER_CHECK_TIMEOUT_ENV, 600, 60, 1200),
        quorum_grace_seconds=reader.read_number(constants.BARRIER_QUORUM_GRACE_ENV, 30, 0, 1200),
        framework_json=reader.read(
            constants.BARRIER_FRAMEWORK_JSON_ENV, "auto", FrameworkJson, "auto, on or off"
        ),
        working_dir=reader.read_text(constants.WORKING_DIR_ENV, constants.WORKING_DIR),
        termination_log=reader.read_text(constants.TERMINATION_LOG_ENV, constants.TERMINATION_LOG),
        is_json_log=is_json_log,
        requirements=requirements,
        dns_name=dns_name,
        expected=reader.read_expected(requirements),
    )
    if reader.faults:
        raise ConfigError(reader.faults)
    return config


def _check_names(reader: _Reader, namespace: str, framework: str, configmap: str) -> None:
    # The names become parts of URLs.
    is_namespace, is_framework = is_framework_name(namespace), is_framework_name(framework)
    # The default is built from the name of the Framework, which is checked before.
    is_configmap = configmap == build_configmap_name(framework) or is_object_name(configmap)
    for env, name, is_valid, kind in (
        (constants.FRAMEWORK_NAMESPACE, namespace, is_namespace, "namespace"),
        (constants.FRAMEWORK_NAME, framework, is_framework, "Framework"),
        (constants.CONFIGMAP_NAME, configmap, is_configmap, "ConfigMap"),
    ):
        reader.check(env, name, is_valid=is_valid, kind=kind)


def _read_identity(reader: _Reader) -> Identity:
    role = reader.read_text(constants.TASKROLE_NAME)
    reader.check(constants.TASKROLE_NAME, role, is_valid=is_role_name(role), kind="task role")
    last = constants.MAX_TASK_NUMBER - 1
    return Identity(
        instance_uid=reader.read_text(constants.FRAMEWORK_ATTEMPT_INSTANCE_UID),
        configmap_uid=reader.read_text(constants.CONFIGMAP_UID),
        role=role,
        task_index=reader.read_number(constants.TASK_INDEX, 0, 0, last),
        task_attempt_id=reader.read_number(constants.TASK_ATTEMPT_ID, 0, 0),
        pod_uid=reader.read_text(constants.POD_UID),
    )
