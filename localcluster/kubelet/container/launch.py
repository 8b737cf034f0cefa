"""Builds the launch of a container: command, environment, mounts. It starts nothing."""

import posixpath
from dataclasses import dataclass, replace
from pathlib import Path

from framework.api.constants import TERMINATION_LOG
from framework.api.images import starts_installed_agent
from framework.kube.resources import Object
from localcluster.kubelet.container.images import build_argv, explain_unknown_image, find_entrypoint
from localcluster.kubelet.container.machine import Machine
from localcluster.kubelet.container.path_replacement import PathReplacement
from localcluster.kubelet.container.process import LaunchSpec
from localcluster.kubelet.container.security import plan_privileges
from localcluster.kubelet.environment import Sources, build_environment
from localcluster.kubelet.fields import PodFacts, expand
from localcluster.kubelet.volumes.pod_directory import PodDirectory
from localcluster.kubelet.volumes.volumes import Volume, plan_mounts
from localcluster.network.pod_network import OpenNamespace


class UnknownImageError(Exception):
    """The container has no command; the text is for its status."""


@dataclass(frozen=True, slots=True)
class PodSetup:
    """A Pod that has its address and its volumes."""

    machine: Machine
    facts: PodFacts
    directory: PodDirectory
    volumes: dict[str, Volume]
    network: tuple[OpenNamespace, ...] = ()
    """The namespaces that its processes join."""

    @property
    def on_host_network(self) -> bool:
        """Return whether it has no network of its own."""
        return bool(self.facts.pod["spec"].get("hostNetwork"))

    @property
    def hostname(self) -> str:
        """Return the host name that the Pod's processes see."""
        return get_hostname(self.facts.pod)


def get_hostname(pod: Object) -> str:
    """Return ``spec.hostname``, else the Pod's name."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def build_launch(container: Object, setup: PodSetup, sources: Sources) -> LaunchSpec:
    """Build the launch of a container; the caller decides where the output goes.

    ``sources`` has the objects that ``list_env_references`` lists. A container without a command,
    whose image is none of ours, raises UnknownImageError.
    """
    machine = setup.machine
    termination_path = container.get("terminationMessagePath") or TERMINATION_LOG
    api_address = machine.find_api_address(on_host_network=setup.on_host_network)
    cluster = machine.build_cluster_environment(api_address)
    asked = build_environment(container, setup.facts, sources, cluster)
    image = container.get("image") or ""
    argv = build_argv(
        image,
        [expand(word, asked) for word in container.get("command") or ()],
        [expand(word, asked) for word in container.get("args") or ()],
    )
    if argv is None:
        raise UnknownImageError(explain_unknown_image(image))
    privileges = plan_privileges(setup.facts.pod, container, machine.host)
    env = machine.build_base_environment(setup.hostname)
    if privileges.changes_user:
        # The user of the kubelet may read its home; the user of this container may not.
        env["HOME"] = "/"
    if find_entrypoint(image) is not None:
        env |= machine.build_agent_environment(api_address, termination_path)
    elif starts_installed_agent(argv):
        env |= machine.build_access_environment(api_address)
    spec = LaunchSpec(
        argv=argv,
        env=env | asked,
        cwd=container.get("workingDir") or "/",
        namespaces=machine.namespaces,
        network=setup.network,
        root=setup.directory.private_root,
        hostname=setup.hostname,
        mounts=_list_mounts(container, setup, asked, termination_path),
        privileges=privileges,
        passages=machine.passages if privileges.changes_user else (),
    )
    return spec if machine.namespaces.private_root else _replace_paths(spec, container, setup)


def _list_mounts(
    container: Object, setup: PodSetup, variables: dict[str, str], termination_path: str
) -> list[tuple[str, str, bool]]:
    plans = plan_mounts(container, setup.volumes, variables)
    mounts = [
        (str(setup.directory.locate_mount(plan, setup.volumes)), plan.target, plan.read_only)
        for plan in plans
    ]
    termination_log = setup.directory.reset_termination_log(container["name"])
    own = [(str(termination_log), posixpath.normpath(termination_path), False)]
    if not setup.on_host_network:
        files = setup.directory.name_files
        own += [(str(path), target, False) for target, path in files.items()]
    taken = {target for _, target, _ in mounts}
    return mounts + [mount for mount in own if mount[1] not in taken]


def _replace_paths(spec: LaunchSpec, container: Object, setup: PodSetup) -> LaunchSpec:
    """Replace paths in the container by the directories of the Pod on the host."""
    scratch = str(setup.directory.make_scratch(container["name"]))
    paths = {
        target: source
        for source, target, _ in spec.mounts
        if target not in setup.directory.name_files
    }
    cwd = PathReplacement(paths).apply(spec.cwd)
    if cwd == "/" or (cwd == spec.cwd and not Path(cwd).exists()):
        # A runtime creates a missing workingDir; on the host it would be left behind.
        paths[spec.cwd] = cwd = scratch
    replacement = PathReplacement(paths)
    return replace(
        spec,
        argv=[replacement.apply(word) for word in spec.argv],
        env={name: replacement.apply(value) for name, value in spec.env.items()},
        cwd=cwd,
        mounts=[],
        paths=paths,
    )
