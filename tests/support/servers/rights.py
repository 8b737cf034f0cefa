"""Service accounts of deploy/ on a real API server: their rights and their requests.

The requests are read from the server's audit log, which ``tests.support.servers.controlplane``
keeps only for service accounts.
"""

import fnmatch
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from framework.kube.resources import Object
from tests.support.servers.controlplane import Access, write_kubeconfig
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import HANG_SECONDS, wait_until

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_UNCOUNTED = frozenset({"events", "leases"})
_CONFLICT = "the object has been modified"


class Right(NamedTuple):
    """A verb on a resource, ``plural`` or ``plural/subresource``."""

    group: str
    resource: str
    verb: str


def expand_rules(objects: Iterable[Object]) -> set[Right]:
    """Return the rights that the Roles and ClusterRoles among some objects grant."""
    return {
        Right(group, resource, verb)
        for body in objects
        if body["kind"] in {"Role", "ClusterRole"}
        for rule in body["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def is_allowed(
    http: JsonHttp, namespace: str, account: str, right: Right, /, **attributes: str
) -> bool:
    """Ask the server whether an account has a right now.

    The server applies a changed role or binding a moment after it is stored.

    Args:
        http: a client of the administrator.
        namespace: the namespace of the account.
        account: name of the ServiceAccount.
        right: the right, in the namespace of the account if ``attributes`` have no other one.
        attributes: further attributes of the request, as in a SubjectAccessReview.
    """
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "namespace": namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        **attributes,
    }
    review = {"user": f"system:serviceaccount:{namespace}:{account}", "resourceAttributes": asked}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    status, answer = http.request("POST", path, {"spec": review})
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


def run_kubectl(access: Access, *arguments: str) -> str:
    """Run kubectl as the administrator; return its output."""
    assert access.kubectl is not None
    return run_until_no_conflict([access.kubectl, "--kubeconfig", access.kubeconfig, *arguments])


def run_until_no_conflict(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run a command that calls kubectl; return its output.

    The API server writes the status of a CRD by itself, also between kubectl's read and write. Then
    kubectl fails with a conflict, and the command is run again.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
            env=env,
            cwd=folder,
        )
        if _CONFLICT not in done.stderr or time.monotonic() > deadline:
            assert done.returncode == 0, done.stderr
            return done.stdout


def apply_kustomization(access: Access, folder: Path) -> list[Object]:
    """Apply a folder like a user; return its objects."""
    run_kubectl(access, "apply", "--server-side", "--force-conflicts", "-k", str(folder))
    return list(yaml.safe_load_all(run_kubectl(access, "kustomize", str(folder))))


def wait_until_granted(access: Access, objects: Iterable[Object]) -> None:
    """Wait for the authorizer, which applies a role and its binding a moment after the write.

    Without that, the first request of a program may be refused.
    """
    stored = list(objects)
    roles = {(body["kind"], body["metadata"]["name"]): body for body in stored}
    http = access.open_http()
    for binding in stored:
        if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"}:
            continue
        rule = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]["rules"][-1]
        right = Right(rule["apiGroups"][-1], rule["resources"][-1], rule["verbs"][-1])
        subject = binding["subjects"][0]
        namespace = binding["metadata"].get("namespace", "")
        attributes = {"namespace": namespace, "name": rule.get("resourceNames", [""])[-1]}
        owner = subject.get("namespace", namespace)
        ask = partial(is_allowed, http, owner, subject["name"], right, **attributes)
        wait_until(ask, partial(str, (binding["metadata"]["name"], right)))


def write_overlay(folder: Path, base: Path, namespace: str) -> Path:
    """Write an overlay of a user, with the kustomization in another namespace."""
    folder.mkdir()
    content = {"namespace": namespace, "resources": [os.path.relpath(base, folder)]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


def create_account_access(access: Access, folder: Path, namespace: str, account: str) -> Access:
    """Get a token for a service account, and write a kubeconfig with only this token."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    status, answer = access.open_http().request("POST", path, {"spec": {}})
    assert status == 201, answer
    token = answer["status"]["token"]
    kubeconfig = folder / f"{account}.kubeconfig"
    write_kubeconfig(kubeconfig, access.url, access.ca_file, token)
    return replace(access, token=token, kubeconfig=str(kubeconfig))


@dataclass(frozen=True)
class AuditLog:
    """The requests of a service account since the creation of this object.

    Attributes:
        path: the server's log.
        user: the user name of the account, or a pattern of ``fnmatch`` for several.
        start: offset in the file from which to read.
    """

    path: Path
    user: str
    start: int

    @classmethod
    def open(cls, access: Access, namespace: str, account: str) -> "AuditLog":
        """Start to observe an account's requests."""
        assert access.audit_log is not None
        path = Path(access.audit_log)
        return cls(path, f"system:serviceaccount:{namespace}:{account}", path.stat().st_size)

    def read_used(self) -> set[Right]:
        """Read the rights of its allowed requests."""
        return {_read_right(e) for e in self._read() if not _is_refused(e)}

    def read_refused(self) -> set[Right]:
        """Read the rights that it lacked for refused requests."""
        return {_read_right(e) for e in self._read() if _is_refused(e)}

    def count_writes(self, begin: datetime, end: datetime) -> Counter[Right]:
        """Count the writes that were received in a period, without Events and Leases."""
        return Counter(
            _read_right(event)
            for event in self._read()
            if event["verb"] in _WRITES
            and event["objectRef"]["resource"] not in _UNCOUNTED
            and begin <= datetime.fromisoformat(event["requestReceivedTimestamp"]) <= end
        )

    def _read(self) -> list[dict[str, Any]]:
        with self.path.open("rb") as stream:
            stream.seek(self.start)
            lines = stream.read().split(b"\n")[:-1]
        events = [json.loads(line) for line in lines]
        # Paths without an object, such as discovery, are open to every account.
        return [
            e
            for e in events
            if fnmatch.fnmatchcase(e["user"]["username"], self.user) and "objectRef" in e
        ]


def _is_refused(event: dict[str, Any]) -> bool:
    """Return whether the authorizer refused it; admission also answers with 403."""
    decision: str = event["annotations"]["authorization.k8s.io/decision"]
    return decision == "forbid"


def _read_right(event: dict[str, Any]) -> Right:
    ref = event["objectRef"]
    resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
    return Right(ref.get("apiGroup", ""), resource, event["verb"])
