"""The policies on an API server that emulates the oldest release it can.

It takes only expressions that the release before the emulated one knows, too: Kubernetes 1.30.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.kube.resources import Object
from tests.support.machine.prerequisites import MissingPrerequisiteError
from tests.support.servers.binaries import find_binaries
from tests.support.servers.controlplane import Access, ControlPlane, Profile
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import (
    ADMISSION,
    FC,
    Policed,
    allow,
    annotate,
    apply_policies,
    build_pod,
)
from tests.support.servers.rights import apply_kustomization
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

TENANTS = ROOT / "deploy" / "tenants"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    try:
        binaries = find_binaries(os.environ, build=False)
    except MissingPrerequisiteError as e:
        pytest.skip(str(e))
    plane = ControlPlane(binaries, Profile(apiserver_flags=["--emulated-version=1.31"]))
    try:
        yield plane.start()
    finally:
        plane.stop()


def build_policy(expression: str) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    return {
        "metadata": {"name": "probe"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["events"]}]},
            "validations": [{"expression": expression}],
        },
    }


def test_expression_of_a_newer_release_is_refused(access: Access, control_plane: Access) -> None:
    """So that what is accepted below is known to the older release."""
    # Comprehensions of two variables: Kubernetes 1.32.
    body = build_policy("[1].all(index, value, value > index)")
    for server, expected in ((control_plane, 201), (access, 422)):
        http = server.open_http()
        assert http.request("POST", f"{POLICIES}?dryRun=All", body)[0] == expected


def test_policies_are_accepted_and_in_force(access: Access, tmp_path: Path) -> None:
    http: JsonHttp = access.open_http()
    namespace = "/api/v1/namespaces/default"
    with apply_policies(access, ADMISSION, TENANTS / "base"):
        apply_kustomization(access, TENANTS / "strict")
        policed = Policed(http, access, namespace)
        tenant = policed.open_tenant("tenant", allow("create,patch", "pods"))
        policed.create("pods", build_pod("own", account="default", framework=None))
        # A dry run: what is let through before the policy is active would not change after it.
        own = "own?dryRun=All"
        wait_until(lambda: policed.patch(tenant, own, annotate(note="b"))[0] == 200)
        wait_until(lambda: policed.patch(tenant, own, annotate(**{FC: "gang"}))[0] == 403)
