"""Draws the specs of Frameworks, and edits of them.

Together they cover each field of the contract that has an effect on the controller.
"""

import random
from collections.abc import Callable

from framework.api import constants
from framework.api.types import CompletedPodPolicy
from framework.kube.resources import Object
from tests.support.builders import build_role_wire, build_template_wire

Edit = Callable[[random.Random, Object], None]

# Unlimited retries are rare, because such a Framework does not complete.
_RETRY_LIMITS = (0, 0, 1, 1, 3, -1, -2)
_COUNTS = (-1, -1, 1, 2)
_NUMBERS = (0, 1, 2, 2, 3, 5)
_MOST_INDEXES = 4
RECOVERY_SHARE = 0.4
LEAVE_SHARE = 0.4
AVOID_SHARE = 0.4
GANG_KEY = "{{FC_FRAMEWORK_NAME}}-gang-key"


def draw_framework_spec(draw: random.Random) -> Object:
    spec: Object = {
        "executionType": draw.choice(("Start", "Start", "Start", "Create")),
        "retryPolicy": _draw_retry(draw),
        "taskRoles": [draw_role(draw, "ps"), draw_role(draw, "worker")],
    }
    _edit_retention(draw, spec)
    if draw.random() < 0.2:
        _edit_lifetime(draw, spec)
    return spec


def draw_role(draw: random.Random, name: str) -> Object:
    """Draw a role with all optional fields."""
    template = build_template_wire(terminationGracePeriodSeconds=draw.choice((0, 3, 30)))
    chance = draw.random()
    if chance < 0.2:
        template["metadata"] = {"annotations": {constants.WRAPPER_ANNOTATION: "1"}}
    if 0.1 <= chance < 0.3:
        template["spec"]["volumes"] = [{"name": "key", "secret": {"secretName": GANG_KEY}}]
    role = build_role_wire(
        name,
        draw.choice(_NUMBERS),
        frameworkAttemptCompletionPolicy=_draw_policy(draw),
        task={
            "retryPolicy": _draw_retry(draw),
            "podGracefulDeletionTimeoutSec": draw.choice((None, None, 0, 5)),
            "pod": template,
        },
    )
    _set_gaps(draw, role)
    _set_quorum(draw, role)
    _set_drain(draw, role)
    if draw.random() < RECOVERY_SHARE:
        in_place = {"maxRestarts": draw.choice((1, 2)), "withinSeconds": draw.choice((5, 60))}
        role[constants.RECOVERY_FIELD] = {constants.IN_PLACE_FIELD: in_place}
    if draw.random() < LEAVE_SHARE:
        leave = {
            constants.TIMEOUT_SECONDS_FIELD: draw.choice((0, 4, 15)),
            constants.MAX_LEAVES_FIELD: draw.choice((1, 2)),
            constants.WITHIN_SECONDS_FIELD: draw.choice((5, 60)),
        }
        role.setdefault(constants.RECOVERY_FIELD, {})[constants.LEAVE_NODES_FIELD] = leave
    if draw.random() < AVOID_SHARE:
        avoid = {
            constants.FAILURES_FIELD: draw.choice((1, 1, 2)),
            constants.MAX_NODES_FIELD: draw.choice((1, 2)),
            constants.WITHIN_SECONDS_FIELD: draw.choice((30, 600)),
        }
        role.setdefault(constants.RECOVERY_FIELD, {})[constants.AVOID_NODES_FIELD] = avoid
    return role


def edit_spec(draw: random.Random, spec: Object) -> None:
    """Change one part of a spec, most often the scale."""
    draw.choice(_EDITS)(draw, spec)


def _draw_retry(draw: random.Random) -> Object:
    return {
        "fancyRetryPolicy": draw.random() < 0.5,
        "maxRetryCount": draw.choice(_RETRY_LIMITS),
    }


def _draw_policy(draw: random.Random) -> Object:
    return {
        "minFailedTaskCount": draw.choice(_COUNTS),
        "minSucceededTaskCount": draw.choice(_COUNTS),
    }


def _set_gaps(draw: random.Random, role: Object) -> None:
    chance = draw.random() < 0.3
    gaps = draw.sample(range(_MOST_INDEXES), draw.randrange(3)) if chance else []
    role[constants.ABSENT_TASK_INDICES_FIELD] = gaps


def _set_quorum(draw: random.Random, role: Object) -> None:
    role.pop(constants.MIN_MEMBER_COUNT_FIELD, None)
    if draw.random() < 0.3:
        role[constants.MIN_MEMBER_COUNT_FIELD] = draw.randrange(_MOST_INDEXES)


def _set_drain(draw: random.Random, role: Object) -> None:
    role.pop(constants.DRAIN_FIELD, None)
    if draw.random() < 0.6:
        role[constants.DRAIN_FIELD] = {constants.DRAIN_TIMEOUT_FIELD: draw.choice((0, 4, 15, 15))}


def _edit_scale(draw: random.Random, spec: Object) -> None:
    if spec["taskRoles"]:
        draw.choice(spec["taskRoles"])["taskNumber"] = draw.choice(_NUMBERS)


def _edit_roles(draw: random.Random, spec: Object) -> None:
    roles = spec["taskRoles"]
    known = {role["name"] for role in roles}
    if roles and draw.random() < 0.5:
        roles.pop(draw.randrange(len(roles)))
        return
    missing = [name for name in ("chief", "ps", "worker") if name not in known]
    if missing:
        role = draw_role(draw, draw.choice(missing))
        roles.insert(draw.randrange(len(roles) + 1), role)


def _edit_policy(draw: random.Random, spec: Object) -> None:
    for role in spec["taskRoles"]:
        role["frameworkAttemptCompletionPolicy"] = _draw_policy(draw)


def _edit_retries(draw: random.Random, spec: Object) -> None:
    if draw.random() < 0.5:
        spec["retryPolicy"] = _draw_retry(draw)
    for role in spec["taskRoles"]:
        role["task"]["retryPolicy"] = _draw_retry(draw)


def _edit_retention(draw: random.Random, spec: Object) -> None:
    policy = draw.choice((*CompletedPodPolicy, CompletedPodPolicy.RETAIN))
    spec[constants.COMPLETED_POD_POLICY_FIELD] = policy.value
    for role in spec["taskRoles"]:
        role.pop(constants.COMPLETED_POD_POLICY_FIELD, None)
        if draw.random() < 0.3:
            role[constants.COMPLETED_POD_POLICY_FIELD] = draw.choice((*CompletedPodPolicy,)).value


def _edit_lifetime(draw: random.Random, spec: Object) -> None:
    """Set or remove a deadline or a TTL, or suspend."""
    kind = draw.choice((constants.ACTIVE_DEADLINE_FIELD, constants.TTL_FIELD, "suspend"))
    if kind == "suspend":
        spec[constants.SUSPEND_FIELD] = True
    else:
        spec[kind] = draw.choice((None, 0, 5, 30))


def _edit_timeouts(draw: random.Random, spec: Object) -> None:
    for role in spec["taskRoles"]:
        role["task"]["podGracefulDeletionTimeoutSec"] = draw.choice((None, 0, 5))
        _set_drain(draw, role)


def _edit_gang(draw: random.Random, spec: Object) -> None:
    for role in spec["taskRoles"]:
        draw.choice((_set_gaps, _set_gaps, _set_quorum))(draw, role)


_EDITS: tuple[Edit, ...] = (
    *(_edit_scale, _edit_scale, _edit_scale, _edit_roles, _edit_gang),
    *(_edit_policy, _edit_retries, _edit_retention, _edit_timeouts, _edit_lifetime),
)
