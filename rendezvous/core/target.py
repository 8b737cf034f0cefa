"""Which gang an agent follows, and from which Pod: the variables of its container. Pure."""

import re
from typing import Mapping, NamedTuple

from framework.agent.gang import Identity
from framework.api import constants
from framework.api.naming import build_configmap_name, is_framework_name, is_role_name
from rendezvous.core.refusal import MembershipError

UID_FORM = re.compile(r"[A-Za-z0-9._-]{0,256}\Z")
_INDEX = re.compile(r"(0|[1-9][0-9]{0,8})\Z")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?\Z")


class Target(NamedTuple):
    """Which gang, and which Pod of it."""

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


def parse_identity(env: Mapping[str, str]) -> Identity:
    """Parse the identity of this Pod, from the variables that the controller sets.

    Raises:
        MembershipError: They are missing or broken.
    """
    role = env.get(constants.TASKROLE_NAME, "")
    index = env.get(constants.TASK_INDEX, "")
    remedy = "run in a Pod of a Framework, or set the variable"
    if not is_role_name(role):
        raise MembershipError(f"{constants.TASKROLE_NAME}={role!r:.80} is no task role", remedy)
    if not _INDEX.match(index):
        raise MembershipError(f"{constants.TASK_INDEX}={index!r:.80} is no index", remedy)
    instance_uid = env.get(constants.FRAMEWORK_ATTEMPT_INSTANCE_UID, "")
    if not UID_FORM.match(instance_uid):
        name = constants.FRAMEWORK_ATTEMPT_INSTANCE_UID
        raise MembershipError(f"{name}={instance_uid!r:.80} is no UID", remedy)
    return Identity(role, int(index), env.get(constants.POD_UID, ""), instance_uid)


def parse_target(env: Mapping[str, str]) -> Target:
    """Parse which gang is followed, and by which Pod.

    Raises:
        MembershipError: A variable is missing or broken.
    """
    identity = parse_identity(env)
    namespace = env.get(constants.FRAMEWORK_NAMESPACE, "")
    framework = env.get(constants.FRAMEWORK_NAME, "")
    configmap = env.get(constants.CONFIGMAP_NAME) or build_configmap_name(framework)
    pod = env.get(constants.POD_NAME, "")
    for name, text, is_good in (
        (constants.FRAMEWORK_NAMESPACE, namespace, is_framework_name(namespace)),
        (constants.FRAMEWORK_NAME, framework, is_framework_name(framework)),
        (constants.CONFIGMAP_NAME, configmap, _OBJECT_NAME.match(configmap) is not None),
        (constants.POD_NAME, pod, not pod or _OBJECT_NAME.match(pod) is not None),
    ):
        if not is_good:
            remedy = "run in a Pod of a Framework, or set the variable"
            raise MembershipError(f"{name}={text!r:.80} is no name of an object", remedy)
    uid = env.get(constants.CONFIGMAP_UID, "")
    return Target(namespace, framework, configmap, uid, pod, identity)
