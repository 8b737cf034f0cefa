"""Permissions of an agent: how to grant a missing one, and whether a 403 is confirmed.

When every source answers 403, an agent asks the API server by a SelfSubjectAccessReview before it
fails: a temporary 403 must not end a job permanently.
"""

import json
from typing import NamedTuple, Optional

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.connection import Connection, UnreachableError

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CREATED = (200, 201)
_CANNOT_BE_ASKED = (403, 404, 405)


class Permission(NamedTuple):
    """One verb on one object."""

    verb: str
    group: str
    plural: str
    namespace: str
    name: str

    def describe_rule(self) -> str:
        """Write the kubectl commands that grant it to the service account of this Pod."""
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        role, namespace = "frameworkbarrier-" + self.plural, self.namespace
        return (
            f"missing right: {self.verb} {resource} {self.name!r} in namespace {namespace!r}; to "
            f"give it: kubectl -n {namespace} create role {role} --verb={self.verb} "
            f"--resource={resource} --resource-name={self.name} && kubectl -n {namespace} create "
            f"rolebinding {role} --role={role} --serviceaccount={namespace}:SERVICE_ACCOUNT "
            "(that of this Pod)"
        )


class SelfReviews:
    """Sends SelfSubjectAccessReviews over its own connection."""

    def __init__(self, access: Access, clock: AgentClock) -> None:
        """Prepare; the first review opens the connection."""
        self._connection = Connection(access, clock)

    def is_denied(self, permission: Permission) -> Optional[bool]:
        """Return whether the API server confirms that a permission is missing; None if unknown."""
        return is_denied(self._connection, permission)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def is_denied(connection: Connection, permission: Permission) -> Optional[bool]:
    """Return whether the API server confirms that a permission is missing; None if unknown.

    A server that refuses the review itself does not contradict the 403, so the permission counts as
    denied.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": permission.verb,
                "group": permission.group,
                "resource": permission.plural,
                "namespace": permission.namespace,
                "name": permission.name,
            }
        },
    }
    try:
        answer = connection.fetch("POST", _PATH, json.dumps(review).encode())
        if answer.head.status in _CANNOT_BE_ASKED:
            return True
        if answer.head.status not in _CREATED:
            return None
        return not json.loads(answer.body.decode())["status"]["allowed"]
    except (UnreachableError, ValueError, KeyError, TypeError, RecursionError):
        return None
