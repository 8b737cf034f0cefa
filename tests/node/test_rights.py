"""What controller and agents asked of the API server in all the node's tests: runs last.

Nothing may have been refused, and what was granted and never used is listed with its reason.
"""

from pathlib import Path

import pytest
import yaml

from cli.authoring.injection import InjectionOptions, inject
from framework.api import constants
from tests.node.cluster import SYSTEM_NAMESPACE, Cluster
from tests.node.gangs import build_gang
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.rights import AuditLog, Right, expand_rules

pytestmark = pytest.mark.node

FINALIZERS = "asked for by an admission plugin, on behalf of a create: there is no such request"
MARK = (
    "asked for by the policies of deploy/admission, with the authorizer: there is no such request"
)
CONTROLLER_UNUSED = {
    Right("frameworkbarrier.io", "gangs", "control"): MARK,
    Right(constants.GROUP, "frameworks/finalizers", "update"): FINALIZERS,
    Right("", "configmaps/finalizers", "update"): FINALIZERS,
    Right(constants.GROUP, "frameworks", "delete"): "after frameworkCompletedRetainSec: 30 days",
    Right(constants.GROUP, "frameworks", "get"): "when the answer to a status write was lost",
    Right("", "configmaps", "get"): "when a watch has missed something",
    Right("", "pods", "get"): "when a watch has missed something",
    Right("", "events", "patch"): "when an event happens again",
    Right("", "secrets", "create"): "where a Pod template refers to the gang key",
    Right("coordination.k8s.io", "leases", "create"): "once, when there is no Lease yet",
}
AGENTS_UNUSED = {
    Right("", "configmaps", "get"): "when a watch cannot be had",
    Right("", "configmaps", "list"): "when a watch has to begin again",
}


def open_log(cluster: Cluster, user: str) -> AuditLog:
    """Look at the log from the node's start."""
    assert cluster.access.audit_log is not None
    return AuditLog(Path(cluster.access.audit_log), user, 0)


def test_controller_was_refused_nothing_and_has_no_spare_right(cluster: Cluster) -> None:
    account = f"system:serviceaccount:{SYSTEM_NAMESPACE}:framework-controller"
    log = open_log(cluster, account)
    granted = expand_rules(
        body
        for file in ("clusterrole.yaml", "role.yaml")
        for body in yaml.safe_load_all((ROOT / "deploy" / "base" / file).read_text())
    )
    assert log.read_refused() == set()
    assert granted - log.read_used() <= set(CONTROLLER_UNUSED)


def test_agents_were_refused_nothing_and_have_no_spare_right(cluster: Cluster) -> None:
    log = open_log(cluster, "system:serviceaccount:team-*:frameworkbarrier*")
    granted = expand_rules(
        inject(build_gang("any", 1, drain={"timeoutSec": 60}), InjectionOptions())
    )
    assert log.read_refused() == set()
    assert granted - log.read_used() <= set(AGENTS_UNUSED)
