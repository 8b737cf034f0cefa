"""Frameworks as these commands read them."""

from typing import Any

from cli.steer.changes import Gang, read_gang
from framework.api import codec
from framework.api.types import FrameworkSpec, FrameworkStatus, TaskRoleSpec
from tests.support.builders import build_framework, build_role, build_spec


def build_gang(
    spec: FrameworkSpec | None = None, status: FrameworkStatus | None = None, **metadata: Any
) -> Gang:
    """Build a Framework as it is read from a server."""
    return read_gang(codec.encode_framework(build_framework(spec, status, **metadata)))


def build_gang_of(*roles: TaskRoleSpec, **spec: Any) -> Gang:
    """Build a Framework of these roles, which the controller has not seen."""
    return build_gang(build_spec(*(roles or (build_role("worker", 4),)), **spec))
