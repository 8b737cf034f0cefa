"""Our controller as deploy/ ships it: its Deployment's arguments, its service account's rights.

What it asked for and what it was refused is read from the audit log of a control plane that this
project has started.
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
    """Apply what gives the controller its rights: everywhere, or in one namespace.

    Args:
        access: the server, with kubectl.
        role: one of ROLES.
        namespace: where a namespaced controller works, and runs.
        folder: for an overlay, as a user would write it.
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
            objects: what was applied.
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
        """Start it, with no other right than its service account's; ``options`` come last."""
        arguments = [
            text.replace("$(POD_NAMESPACE)", self.namespace) for text in self._container["args"]
        ]
        command = [sys.executable, "-m", "controller", *arguments, "--health-port=0"]
        command += ["--kubeconfig", self._access.kubeconfig, *options]
        if self._config is not None:
            command += ["--config", str(self._config)]
        log = self._folder / "controller.log"
        return ChildProcess("controller", command, log=log, env=build_env())
