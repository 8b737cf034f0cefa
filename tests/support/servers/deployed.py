"""The controller as deployed by deploy/, with its arguments and the rights of its service account.

Its requests and refusals are read from the audit log of a control plane that the tests have
started.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from framework.kube.resources import Object
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.rights import (
    AuditLog,
    apply_kustomization,
    create_account_access,
    expand_rules,
    wait_until_granted,
    write_overlay,
)

BASE = ROOT / "deploy" / "base"
NAMESPACED = ROOT / "deploy" / "overlays" / "namespaced"
ACCOUNT = "framework-controller"
"""Its service account, and its Lease."""
ROLES = ("cluster", "namespaced")


def apply_role(access: Access, role: str, namespace: str, folder: Path) -> list[Object]:
    """Apply the rights of the controller: in all namespaces, or in one.

    Args:
        access: the server, with kubectl.
        role: one of ROLES.
        namespace: the namespace in which a namespaced controller works and runs.
        folder: for an overlay in the form of a user.
    """
    if role == "cluster":
        return apply_kustomization(access, BASE)
    return apply_kustomization(access, write_overlay(folder / "overlay", NAMESPACED, namespace))


class Deployed:
    """The controller of a kustomization that was applied."""

    def __init__(
        self,
        access: Access,
        objects: list[Object],
        folder: Path,
        config: dict[str, Any] | None = None,
    ) -> None:
        """Take its service account; nothing runs yet.

        Args:
            access: the server, with an audit log.
            objects: the applied objects.
            folder: for log, kubeconfig and config file.
            config: content of a config file; None for the defaults.
        """
        self.granted = expand_rules(objects)
        deployment = next(body for body in objects if body["kind"] == "Deployment")
        self.namespace = deployment["metadata"]["namespace"]
        self._container = deployment["spec"]["template"]["spec"]["containers"][0]
        self._access = create_account_access(access, folder, self.namespace, ACCOUNT)
        wait_until_granted(access, objects)
        self._folder = folder
        self._config: Path | None = None
        if config is not None:
            self._config = folder / "config.yaml"
            self._config.write_text(yaml.safe_dump(config))
        self.audit = AuditLog.open(access, self.namespace, ACCOUNT)

    def launch(self, *options: str) -> ChildProcess:
        """Start it with only the rights of its service account; ``options`` come last."""
        arguments = [
            text.replace("$(POD_NAMESPACE)", self.namespace) for text in self._container["args"]
        ]
        command = [sys.executable, "-m", "controller", *arguments, "--health-port=0"]
        command += ["--kubeconfig", self._access.kubeconfig, *options]
        if self._config is not None:
            command += ["--config", str(self._config)]
        log = self._folder / "controller.log"
        return ChildProcess("controller", command, log=log, env=build_env())
