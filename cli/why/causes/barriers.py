"""Barriers that wait: for the API server, for a requirement, for other Tasks. Pure."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from cli.texts.reasons import read_readiness
from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import ContainerFacts, Observation, TaskFacts, group_tasks, read_time
from cli.why.remedies import replace_framework
from framework.api import constants, images
from framework.api.naming import TaskKey

_LINE = re.compile(
    r"^barrier: (?:(?P<ready>\d+)/(?P<total>\d+) ready|waiting) after (?P<seconds>\d+) s"
    r"(?:; (?P<rest>.*))?$"
)
_RIGHT = re.compile(r"^barrier: (?:warning: )?missing right: (?P<right>[^;]+)")
# The barrier writes the beginning of a message; the reasons of missing Tasks follow.
_SOURCE_FAULT = re.compile(
    r"(?:ConfigMap|Framework) \S+ is (?:unreachable|forbidden|not authenticated|not found)\b"
)
_UNMET = re.compile(r"not reached yet: |[a-z0-9]{0,63} is not (?:seen|running) yet")
# A gang of many Pods is complete within this time on most clusters.
_USUAL_WAIT_SECONDS = 30
_SHOWN_MISSING = 3


class BarrierLine(NamedTuple):
    """The newest line of a barrier."""

    text: str
    message: str
    """The reason of the wait, without counts and time."""


def find_barrier(task: TaskFacts) -> ContainerFacts | None:
    """Find the barrier of a Task's Pod, if it runs."""
    for container in task.list_containers():
        is_barrier = images.find_program(container.image) == images.BARRIER
        if container.is_init and is_barrier and container.get_state("running"):
            return container
    return None


def find_api_server(observation: Observation) -> Iterator[Cause]:
    """Find barriers that cannot read their gang."""
    found = []
    for task, container in _walk_barriers(observation):
        log = observation.get_log(task, container.name)
        right = next((m for line in log[::-1] if (m := _RIGHT.match(_read_text(line)))), None)
        line = read_line(log)
        fault = _SOURCE_FAULT.match(line.message) if line else None
        if right is not None:
            what = f"lacks a right: {right.group('right')}"
            found.append((task, (container.name, what, right.string)))
        elif line is not None and fault is not None:
            found.append((task, (container.name, f"cannot read its gang: {line.message}", "")))
    for (name, what, quote), tasks in group_tasks(observation.tasks, found):
        is_right = what.startswith("lacks")
        log = observation.get_log(tasks[0], name)
        network = observation.commands.build_kubectl("get", "networkpolicies")
        remedy = (
            Remedy(
                "add the rights of the agents, and run it again",
                observation.commands.build_injection(),
            )
            if is_right
            else Remedy("let its Pods connect to the API server (NetworkPolicy, proxy)", (network,))
        )
        line = read_line(log)
        yield Cause(
            Kind.API_SERVER,
            f"waits in its barrier, which {what}",
            tasks=tuple(task.key for task in tasks),
            since=_find_start(tasks[0]),
            quote=quote or (line.text if line else ""),
            remedies=(remedy,),
        )


def find_requirement(observation: Observation) -> Iterator[Cause]:
    """Find barriers whose gang is complete and that wait for BARRIER_REQUIRE."""
    found = []
    for task, container in _walk_barriers(observation):
        line = read_line(observation.get_log(task, container.name))
        if line is not None and _UNMET.match(line.message):
            env = container.spec.get("env")
            required = next(
                (e.get("value") for e in env if e.get("name") == constants.BARRIER_REQUIRE_ENV), ""
            ) if isinstance(env, list) else ""  # fmt: skip
            message = line.message.partition("; waiting for")[0]
            found.append((task, (str(required), message)))
    for (required, message), tasks in group_tasks(observation.tasks, found):
        setting = f"{constants.BARRIER_REQUIRE_ENV}={required}" if required else "its requirement"
        role = required.partition("=")[0]
        command = observation.commands.build_framework("logs", observation.name, role or "ROLE")
        yield Cause(
            Kind.REQUIREMENT,
            f"waits in its barrier for {setting}: {message}",
            tasks=tuple(task.key for task in tasks),
            since=_find_start(tasks[0]),
            remedies=(
                Remedy(f"read the log of {role or 'the required role'}", (command,)),
                replace_framework(
                    observation,
                    f"correct {constants.BARRIER_REQUIRE_ENV} in the file, and replace it",
                ),
            ),
        )


def find_incomplete_gang(observation: Observation) -> Iterator[Cause]:
    """Find barriers that have waited for long for other Tasks."""
    limit = timedelta(seconds=_USUAL_WAIT_SECONDS)
    waiting = [task for task, _ in _walk_barriers(observation)]
    starts = [start for task in waiting if (start := _find_start(task)) is not None]
    if not starts or observation.now - min(starts) < limit:
        return
    missing, _ = read_readiness(observation.configmap)
    if not missing:
        return
    named = list(missing.items())[:_SHOWN_MISSING]
    shown = ", ".join(f"{key} ({reason})" for key, reason in named)
    more = f" and {len(missing) - len(named)} more" if len(missing) > len(named) else ""
    keys: tuple[TaskKey, ...] = tuple(missing)
    yield Cause(
        Kind.GANG,
        f"missing, so {len(waiting)} barriers wait: {shown}{more}",
        tasks=keys,
        since=min(starts),
        remedies=(
            Remedy(
                "look at the Pods of the missing Tasks",
                (
                    observation.commands.build_kubectl(
                        *("get", "pods", "-l", f"{constants.FRAMEWORK_NAME}={observation.name}"),
                    ),
                ),
            ),
        ),
    )


def read_line(log: tuple[str, ...]) -> BarrierLine | None:
    """Read the newest line with which a barrier says what it waits for; None without one."""
    for line in reversed(log):
        text = _read_text(line)
        found = _LINE.match(text)
        if found is not None:
            return BarrierLine(text, found.group("rest") or "")
    return None


def _read_text(line: str) -> str:
    """Return a line of a barrier as text; with BARRIER_LOG=json it is JSON."""
    if not line.startswith("{"):
        return line
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    message = found.get("message") if isinstance(found, dict) else None
    return f"barrier: {message}" if isinstance(message, str) else line


def _walk_barriers(observation: Observation) -> Iterator[tuple[TaskFacts, ContainerFacts]]:
    for task in observation.tasks:
        barrier = None if task.is_terminating else find_barrier(task)
        if barrier is not None:
            yield task, barrier


def _find_start(task: TaskFacts) -> datetime | None:
    barrier = find_barrier(task)
    return read_time(barrier.get_state("running").get("startedAt")) if barrier else None
