"""Writes the commands of remedies, to be copied: for the same cluster as the answer. Pure."""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.clusterchoice import ClusterChoice
from cli.invocation import build_command
from cli.jobs import JobName
from cli.texts.sshkeys import FROM_FILES
from framework.kube.resources import Object

_COMPACT = (",", ":")
# Any other word that begins with a dash may be a name that an attacker chose.
_OPTIONS = frozenset(
    {
        *("-", "-A", "-f", "-k", "-l", "-n", "-o", "-p", "--force", "--server-side"),
        *("--force-conflicts", "--verb=get,list", "--user=USER", "--resource=nodes"),
        *("--role=framework-why", "--clusterrole=framework-why-nodes", "--resource=pods"),
        *("--resource=pods/log", "--resource=events", "--resource=configmaps"),
        "--resource=persistentvolumeclaims",
        *("--type=json", "--type=merge", "--dry-run=client", "--ignore-not-found"),
        *("--grace-period=0", "--replicas=1", "--from-literal=KEY=VALUE"),
        *("--docker-server=REGISTRY", "--docker-username=USER", "--docker-password=PASSWORD"),
        *FROM_FILES,
    }
)
_PLACEHOLDER = "NAME"
_CONTROLLERS = "app.kubernetes.io/name=framework-controller"


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands about one Framework."""

    name: str
    """The Framework."""
    choice: ClusterChoice = field(default_factory=ClusterChoice)
    """The cluster options of the user, which each command repeats."""
    kubeconfig: str | None = None
    """A kubeconfig that kubectl needs and ``framework`` finds by itself; None if it needs none."""
    local_kubeconfig: str | None = None
    """The kubeconfig of a local cluster; None for another cluster."""
    job: JobName | None = None
    """The job that the Framework belongs to: it is changed in place of the Framework."""

    def build_framework(self, command: str, *arguments: str) -> str:
        """Write a call of this program."""
        return build_command(command, *arguments, *self._list_options(self.choice.kubeconfig))

    def build_kubectl(self, *arguments: str) -> str:
        """Write a call of kubectl in the namespace of the Framework."""
        options = self._list_options(self.choice.kubeconfig or self.kubeconfig)
        return _join_kubectl(arguments, options)

    def build_global_kubectl(self, *arguments: str) -> str:
        """Write a call of kubectl that names its namespace itself, or is about none."""
        kubeconfig = self.choice.kubeconfig or self.kubeconfig
        options = self._list_options(kubeconfig, names_namespace=False)
        return _join_kubectl(arguments, options)

    def build_local_restart(self, gpus: int) -> tuple[str, ...]:
        """Write the commands that start the local cluster again with GPUs."""
        path = self.local_kubeconfig
        up = ["local", "up", "--detach", "--gpus", str(gpus)]
        return (
            build_command("local", "down"),
            build_command(*up, *(("--kubeconfig", path) if path else ())),
        )

    def build_controller(self) -> str:
        """Write the command that starts a controller on this machine."""
        kubeconfig = self.choice.kubeconfig or self.kubeconfig
        return shlex.join(
            ["framework-controller", *(("--kubeconfig", kubeconfig) if kubeconfig else ())]
        )

    def build_controller_search(self) -> str:
        """Write the command that lists the controllers of all namespaces."""
        return self.build_global_kubectl("get", "deployments", "-A", "-l", _CONTROLLERS)

    def build_patch(self, operations: Iterable[Object]) -> str:
        """Write the command that changes the stored Framework by a JSON patch."""
        patch = _render(list(operations))
        return self.build_kubectl("patch", "framework", self.name, "--type=json", "-p", patch)

    def build_merge(self, kind: str, name: str, change: Object) -> str:
        """Write the command that changes an object by a merge patch."""
        return self.build_kubectl("patch", kind, name, "--type=merge", "-p", _render(change))

    def build_replacement(self, operations: Sequence[Object] = ()) -> tuple[str, ...]:
        """Write the commands that replace the Framework by a changed copy of itself.

        Args:
            operations: a JSON patch; without one, and with a job, the user edits the file between
                the commands.
        """
        if self.job is not None:
            return self._build_job_replacement(self.job)
        run = self.build_framework("run", f"{self.name}.yaml", "--replace")
        get = self.build_framework("get", self.name, "-o", "yaml")
        if not operations:
            return f"{get} >{shlex.quote(self.name)}.yaml", run
        change = ["kubectl", "patch", "--local", "-f", "-", "--type=json", "-p"]
        patch = shlex.join([*change, _render(list(operations)), "-o", "yaml"])
        return f"{get} | {patch} >{shlex.quote(self.name)}.yaml", run

    def build_restart(self, *, resumes: bool) -> tuple[str, ...]:
        """Write the commands that replace a stopped Framework by a copy that runs.

        Args:
            resumes: whether a suspended copy is to run.
        """
        if self.job is not None:
            return self._build_job_replacement(self.job)
        # Fields of the spec: those of other parts of the YAML have another indent.
        script = "s/^  executionType: Stop$/  executionType: Start/"
        if resumes:
            script += "; s/^  suspend: true$/  suspend: false/"
        get = self.build_framework("get", self.name, "-o", "yaml")
        run = self.build_framework("run", f"{self.name}.yaml", "--replace")
        return f"{get} | sed {shlex.quote(script)} >{shlex.quote(self.name)}.yaml", run

    def build_injection(self) -> tuple[str, ...]:
        """Write the commands that add the agents and the fields of the level restricted."""
        if self.job is not None:
            return self._build_job_replacement(self.job)
        file = f"{self.name}.yaml"
        get = self.build_framework("get", self.name, "-o", "yaml")
        inject = build_command("inject", "--restricted", "-", "--output", file)
        return f"{get} | {inject}", self.build_framework("run", file, "--replace")

    def replaces_job(self, commands: Sequence[str]) -> bool:
        """Return whether commands of a remedy replace the job that the Framework belongs to."""
        if self.job is None:
            return False
        return set(self._build_job_replacement(self.job)) <= set(commands)

    def _build_job_replacement(self, job: JobName) -> tuple[str, ...]:
        file = f"{self.name}.yaml"
        get = self.build_kubectl("get", job.resource, "-o", "yaml")
        return f"{get} >{shlex.quote(file)}", self.build_kubectl("replace", "--force", "-f", file)

    def build_creation(self, *arguments: str) -> str:
        """Write a ``kubectl create KIND NAME ...`` that also a local cluster accepts.

        ``kubectl apply`` would also store the values of a Secret in one of its annotations.
        """
        create = _join_kubectl(("create", *arguments, "--dry-run=client", "-o", "yaml"))
        return f"{create} | {self.build_kubectl('create', '-f', '-')}"

    def build_application(self, body: Object) -> str:
        """Write the command that applies an object."""
        return f"echo {shlex.quote(_render(body))} | {self.build_kubectl('apply', '-f', '-')}"

    def _list_options(self, kubeconfig: str | None, *, names_namespace: bool = True) -> list[str]:
        given = {
            "-n": self.choice.namespace if names_namespace else None,
            "--kubeconfig": kubeconfig,
            "--context": self.choice.context,
        }
        return [word for option, value in given.items() if value for word in (option, value)]


def _join_kubectl(arguments: Iterable[str], options: Sequence[str] = ()) -> str:
    """Quote a call of kubectl; a name that kubectl would take for an option is left out."""
    words = (
        _PLACEHOLDER if word.startswith("-") and word not in _OPTIONS else word
        for word in arguments
    )
    return shlex.join(["kubectl", *words, *options])


def _render(value: Any) -> str:
    return json.dumps(value, separators=_COMPACT, ensure_ascii=False)
