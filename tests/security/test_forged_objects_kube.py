"""Forged Pods and ConfigMaps on a real API server: a tenant with few rights, our controller.

The tenant may create and delete Pods and ConfigMaps and read them and the Frameworks. The policies
of deploy/admission are not installed: the controller alone must recognize its own objects.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.api import constants
from framework.kube.resources import Object
from tests.support.builders import build_role_wire, build_submission
from tests.support.builders.forger import forge_configmap, forge_pod
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import launch_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import Policed, allow, create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

POD, OTHER, CONFIGMAP = "gang-worker-0", "gang-worker-1", "gang-attempt"


class Site:
    """The namespace of a Framework, its tenant, and a controller that can be killed."""

    def __init__(self, access: Access, admin: JsonHttp, namespace: str, folder: Path) -> None:
        self._access = access
        self._folder = folder
        self._controller: ChildProcess | None = None
        self.cluster = Policed(admin, access, f"/api/v1/namespaces/{namespace}")
        self.tenant = self.cluster.open_tenant(
            "tenant",
            allow("create,delete,get,list", "pods,configmaps"),
            allow("get", "frameworks", constants.GROUP),
        )
        self._frameworks = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/frameworks"

    def start(self) -> None:
        self._controller = launch_controller(self._access, self._folder)

    def kill(self) -> None:
        if self._controller is not None:
            self._controller.kill()
            self._controller = None

    def create_gang(self) -> Object:
        """Create a Framework of two Tasks as the administrator."""
        body = build_submission("gang", build_role_wire("worker", 2))
        return create(self.cluster.admin, self._frameworks, body)

    def read_framework(self) -> Object:
        """Read the Framework as the tenant."""
        status, answer = self.tenant.request("GET", f"{self._frameworks}/gang")
        assert status == 200, answer
        framework: Object = answer
        return framework

    def find_blocked(self) -> str:
        """Return the message of the condition Blocked, "" if it is not NameTaken."""
        status = self.read_framework().get("status") or {}
        for condition in status.get("conditions") or ():
            if (condition["type"], condition["status"]) == ("Blocked", "True"):
                assert condition["reason"] == "NameTaken"
                return str(condition["message"])
        return ""

    def find_pod_uid(self, index: int) -> str | None:
        """Return the UID that is recorded for a Task."""
        status = self.read_framework().get("status") or {}
        roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or ()
        uid = roles[0]["taskStatuses"][index]["attemptStatus"]["podUID"] if roles else None
        return str(uid) if uid else None

    def make(self, plural: str, body: Object) -> str:
        """Create an object as the tenant; return its UID."""
        return str(create(self.tenant, f"{self.cluster.path}/{plural}", body)["metadata"]["uid"])

    def remove(self, plural: str, name: str) -> None:
        """Delete an object as the tenant, at once, and wait until its name is free."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        path = f"{self.cluster.path}/{plural}/{name}"
        status, answer = self.tenant.request("DELETE", path, options)
        assert status == 200, answer
        self.wait(lambda: self.tenant.request("GET", path)[0] == 404)

    def wait(self, is_true: Callable[[], bool]) -> None:
        """Wait until the controller or the server has done something."""
        wait_until(is_true, lambda: str(self.read_framework().get("status")))


@pytest.fixture
def site(
    framework_crd: None, control_plane: Access, http: JsonHttp, namespace: str, tmp_path: Path
) -> Iterator[Site]:
    opened = Site(control_plane, http, namespace, tmp_path)
    yield opened
    opened.kill()


def test_pod_that_takes_the_name_of_a_task_or_is_forged_is_not_adopted(site: Site) -> None:
    plain = {"metadata": {"name": POD}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    squatter = site.make("pods", plain)
    site.create_gang()
    site.start()
    site.wait(lambda: squatter in site.find_blocked())
    site.wait(lambda: site.find_pod_uid(1) is not None)
    site.kill()
    site.remove("pods", POD)
    own = site.cluster.read(OTHER)
    forged = site.make("pods", forge_pod(site.read_framework(), proof_of=own))
    site.start()
    site.wait(lambda: forged in site.find_blocked())
    assert site.find_pod_uid(0) is None
    assert site.cluster.read(POD)["metadata"]["uid"] == forged
    assert constants.ROSTER_KEY not in (
        site.cluster.read(CONFIGMAP, "configmaps").get("binaryData") or {}
    )
    site.remove("pods", POD)
    site.wait(lambda: site.find_pod_uid(0) is not None and not site.find_blocked())
    assert site.cluster.read(POD)["metadata"]["uid"] == site.find_pod_uid(0) != forged
    assert site.cluster.read(OTHER)["metadata"]["uid"] == own["metadata"]["uid"]


def test_configmap_forged_before_the_controller_starts_is_not_adopted(
    site: Site,
) -> None:
    framework = site.create_gang()
    forged = site.make("configmaps", forge_configmap(framework))
    site.start()
    site.wait(lambda: forged in site.find_blocked())
    assert site.read_framework()["status"]["attemptStatus"]["configMapUID"] is None
    assert site.cluster.read(CONFIGMAP, "configmaps")["metadata"]["uid"] == forged
    site.remove("configmaps", CONFIGMAP)
    site.wait(lambda: site.find_pod_uid(0) is not None and not site.find_blocked())
    recorded = site.read_framework()["status"]["attemptStatus"]["configMapUID"]
    assert site.cluster.read(CONFIGMAP, "configmaps")["metadata"]["uid"] == recorded != forged
