"""Ask the API server whether a right is really missing, and say how to give it.

Called when every source is denied: a wrong 403 must not end a job for good.
"""

import json
from typing import NamedTuple, Optional

from framework.agent.connection import Connection, UnreachableError

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CREATED = (200, 201)
_CANNOT_BE_ASKED = (403, 404, 405)


class Permission(NamedTuple):
    """One right on one object."""

    verb: str
    group: str
    plural: str
    namespace: str
    name: str

    def describe_rule(self) -> str:
        """Write the missing rule as a command that gives it to this Pod's service account."""
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        role, namespace = "frameworkbarrier-" + self.plural, self.namespace
        return (
            f"missing right: {self.verb} {resource} {self.name!r} in namespace {namespace!r}; to "
            f"give it: kubectl -n {namespace} create role {role} --verb={self.verb} "
            f"--resource={resource} --resource-name={self.name} && kubectl -n {namespace} create "
            f"rolebinding {role} --role={role} --serviceaccount={namespace}:SERVICE_ACCOUNT "
            "(that of this Pod)"
        )


def is_denied(connection: Connection, permission: Permission) -> Optional[bool]:
    """Ask by a SelfSubjectAccessReview; None if there is no answer now.

    A server that does not let us ask cannot contradict the denial, so that counts as denied.
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
