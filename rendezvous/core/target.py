"""The gang that an agent follows and its own Pod, from the variables of the container. Pure."""

import re
from typing import Mapping, NamedTuple

from framework.agent.gang import Identity
from framework.api import constants
from framework.api.naming import (
    build_configmap_name,
    is_framework_name,
    is_object_name,
    is_role_name,
)
from rendezvous.core.refusal import MembershipError

UID_FORM = re.compile(r"[A-Za-z0-9._-]{0,256}\Z")
_INDEX = re.compile(r"(0|[1-9][0-9]{0,8})\Z")
_NAME = "name of an object"


class Target(NamedTuple):
    """A gang, and the own Pod in it."""

    namespace: str
    """The namespace of the Framework."""
    framework: str
    """The name of the Framework."""
    configmap: str
    """The name of its attempt ConfigMap."""
    configmap_uid: str
    """The UID of that ConfigMap; "": any."""
    pod: str
    """The name of the own Pod; "" if it is not known."""
    identity: Identity
    """The own Task, Pod and attempt."""


def parse_target(env: Mapping[str, str]) -> Target:
    """Parse the gang and the own Pod from the variables that the controller sets.

    Raises:
        MembershipError: A variable is missing or broken.
    """
    role, index = env.get(constants.TASKROLE_NAME, ""), env.get(constants.TASK_INDEX, "")
    instance_uid = env.get(constants.FRAMEWORK_ATTEMPT_INSTANCE_UID, "")
    namespace = env.get(constants.FRAMEWORK_NAMESPACE, "")
    framework = env.get(constants.FRAMEWORK_NAME, "")
    configmap = env.get(constants.CONFIGMAP_NAME) or build_configmap_name(framework)
    pod = env.get(constants.POD_NAME, "")
    for name, text, is_valid, form in (
        (constants.TASKROLE_NAME, role, is_role_name, "task role"),
        (constants.TASK_INDEX, index, _INDEX.match, "index"),
        (constants.FRAMEWORK_ATTEMPT_INSTANCE_UID, instance_uid, UID_FORM.match, "UID"),
        (constants.FRAMEWORK_NAMESPACE, namespace, is_framework_name, _NAME),
        (constants.FRAMEWORK_NAME, framework, is_framework_name, _NAME),
        (constants.CONFIGMAP_NAME, configmap, is_object_name, _NAME),
        (constants.POD_NAME, pod, _is_pod_name, _NAME),
    ):
        if not is_valid(text):
            remedy = "run in a Pod of a Framework, or set the variable"
            raise MembershipError(f"{name}={text!r:.80} is not a valid {form}", remedy)
    identity = Identity(role, int(index), env.get(constants.POD_UID, ""), instance_uid)
    uid = env.get(constants.CONFIGMAP_UID, "")
    return Target(namespace, framework, configmap, uid, pod, identity)


def _is_pod_name(text: str) -> bool:
    """Return whether a text is the name of a Pod, or "": the name is not known."""
    return not text or is_object_name(text)
