"""What the tests of the node do to it, as its user would: with kubectl and our command line.

Every wait has a deadline and ends with what the cluster looked like.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.support.machine.realnode import FOLDER_ENV
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import wait_until

SYSTEM_NAMESPACE = "frameworkbarrier-system"
# The longest wait, which only ends a hang. On a busy machine, Pods take minutes to start.
NODE_SECONDS = 1600
T = TypeVar("T")


class Cluster:
    """One node, its API, and the processes that make it."""

    def __init__(self, access: Access, env: Mapping[str, str]) -> None:
        self.access = access
        self._env = dict(env)
        self._folder = Path(env[FOLDER_ENV])

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl to its end; fail the test when it fails."""
        done = self.try_kubectl(*arguments, text=text)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}{done.stdout}"
        return done.stdout

    def try_kubectl(
        self, *arguments: str, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl and look at what came of it."""
        assert self.access.kubectl is not None
        return self._run([self.access.kubectl, *arguments], text)

    def framework(
        self, *arguments: str, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run our command line."""
        return self._run([sys.executable, "-m", "cli.main", *arguments], text)

    def run_in_shell(self, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command line that our program has printed, with its programs on the PATH."""
        assert self.access.kubectl is not None
        programs = folder / "programs"
        programs.mkdir(exist_ok=True)
        kubectl = programs / "kubectl"
        if not kubectl.exists():
            kubectl.symlink_to(self.access.kubectl)
        path = os.pathsep.join(
            map(str, (programs, Path(sys.executable).parent, os.environ["PATH"]))
        )
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**self._env, "PATH": path},
        )

    def get(self, *arguments: str) -> Any:
        """Read an object, or a list, as JSON."""
        return json.loads(self.kubectl("get", "-o", "json", *arguments))

    def create_namespace(self, name: str, *, pod_security: str) -> None:
        """Make a namespace with a level of Pod Security that the API server enforces."""
        self.kubectl("create", "namespace", name)
        self.kubectl(
            "label", "namespace", name, f"pod-security.kubernetes.io/enforce={pod_security}"
        )

    def deploy(self) -> None:
        """Apply what docs/install.md says, and wait for the rollout."""
        self.kubectl("apply", "--server-side", "-k", str(ROOT / "deploy" / "base"))
        for folder in ("admission", "network"):
            self.kubectl("apply", "-k", str(ROOT / "deploy" / folder))
        self.wait_for_rollout()

    def wait_for_rollout(self) -> None:
        """Wait until the controller is the one that was applied last, and no earlier one is left.

        `kubectl rollout status` leaves out Pods that are being deleted. Their controller goes on
        asking the API server until it ends, also for what only it had the rights to.
        """
        self.kubectl(
            *("rollout", "status", "deployment/framework-controller"),
            *(f"--namespace={SYSTEM_NAMESPACE}", f"--timeout={NODE_SECONDS}s"),
        )

        def look() -> bool | None:
            selector = "app.kubernetes.io/name=framework-controller"
            pods = self.get("pods", "--namespace", SYSTEM_NAMESPACE, "--selector", selector)
            return True if len(pods["items"]) == 1 else None

        self.wait(look, "one Pod of the controller is left", SYSTEM_NAMESPACE)

    def patch_framework(self, namespace: str, name: str, *operations: dict[str, Any]) -> None:
        """Change a Framework, all of it or nothing."""
        patch = ("patch", "framework", name, "--namespace", namespace, "--type=json")
        self.kubectl(*patch, "-p", json.dumps(operations))

    def run_in(self, namespace: str, pod: str, container: str, *command: str) -> str:
        """Run a command in a container; fail the test when it fails."""
        return self.kubectl("exec", "--namespace", namespace, pod, "-c", container, "--", *command)

    def wait_for_state(self, namespace: str, name: str, state: str) -> dict[str, Any]:
        """Wait until a Framework is in this state; give it."""

        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.get("framework", name, "--namespace", namespace)
            return found if (found.get("status") or {}).get("state") == state else None

        return self.wait(look, f"{name} is {state}", namespace)

    def wait(
        self, look: Callable[[], T | None], what: str | Callable[[], str], namespace: str
    ) -> T:
        """Look until there is something; else fail with the Pods and events of the namespace.

        Args:
            look: returns what is there, or None.
            what: names what is missing, at the end of the wait.
            namespace: of what is described if nothing is found.
        """
        found: list[T] = []

        def is_found() -> bool:
            result = look()
            found.extend(() if result is None else (result,))
            return bool(found)

        def explain() -> str:
            return f"{what if isinstance(what, str) else what()}\n{self.describe(namespace)}"

        wait_until(is_found, explain, pause_seconds=0.5, limit_seconds=NODE_SECONDS)
        return found[0]

    def describe(self, namespace: str) -> str:
        """Show what a user would look at first."""
        return "\n".join(
            self.try_kubectl(*arguments, "--namespace", namespace).stdout
            for arguments in (
                ("get", "frameworks,pods,configmaps", "-o", "wide"),
                ("get", "events", "--sort-by=.lastTimestamp"),
                ("logs", "--all-containers", "--prefix", "--tail=20", "-l", "FC_FRAMEWORK_NAME"),
            )
        )

    def signal_kubelet(self, number: signal.Signals) -> None:
        """Send the kubelet a signal, by the id it was started with."""
        os.kill(int((self._folder / "kubelet.pid").read_text()), number)

    def _run(self, command: list[str], text: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, env=self._env
        )


def open_cluster(env: Mapping[str, str]) -> Cluster | None:
    """Take the node that the environment names; None if there is none."""
    access = Access.from_env(env)
    return Cluster(access, env) if access is not None and FOLDER_ENV in env else None
