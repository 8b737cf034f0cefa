"""Examples on the node: injected, linted and applied as a user does it.

Their training images come from registries that the node cannot reach: each is replaced by one that
it has.
"""

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.node.cluster import NODE_SECONDS, Cluster
from tests.support.servers.frameworkcrd import ROOT

EXAMPLES = ROOT / "examples"
# What kubectl and docs/install.md call for before examples that name this account.
ACCOUNT = "frameworkbarrier"
_IMAGES = {
    "busybox": "python:3.12-slim",
    "ubuntu:24.04": "python:3.12-slim",
    # As docs/migration.md says.
    "frameworkcontroller/frameworkbarrier": "frameworkbarrier/framework-barrier",
}


class Injected(NamedTuple):
    """An example with the agents in it, and what `lint` says of it."""

    text: str
    linted: "subprocess.CompletedProcess[str]"


def inject_example(
    cluster: Cluster, path: Path, *options: str, images: dict[str, str] | None = None
) -> Injected:
    """Put the agents into an example for a namespace that enforces `restricted`."""
    text = path.read_text(encoding="utf-8")
    for name, ours in (_IMAGES | (images or {})).items():
        text = text.replace(f"image: {name}\n", f"image: {ours}\n")
    done = cluster.framework("inject", "--restricted", *options, "-", text=text)
    assert done.returncode == 0, done.stderr
    return Injected(done.stdout, cluster.framework("lint", "-", text=done.stdout))


def run_example(
    cluster: Cluster, namespace: str, injected: Injected
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    _create_account(cluster, namespace, injected)
    run = ("run", "--namespace", namespace, "--timeout", f"{NODE_SECONDS}s", "-")
    return cluster.framework(*run, text=injected.text)


def apply_example(cluster: Cluster, namespace: str, injected: Injected) -> None:
    """Start one that does not end by itself."""
    _create_account(cluster, namespace, injected)
    cluster.kubectl("apply", "--namespace", namespace, "-f", "-", text=injected.text)


def stop_example(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """Ask for the end and wait for it; give the Framework."""
    stop = {"op": "replace", "path": "/spec/executionType", "value": "Stop"}
    cluster.patch_framework(namespace, name, stop)
    return cluster.wait_for_state(namespace, name, "Completed")


def _create_account(cluster: Cluster, namespace: str, injected: Injected) -> None:
    """Make the account that the user's own Pods name; `inject` grants it what it needs."""
    named = {
        role["task"]["pod"]["spec"]["serviceAccountName"]
        for document in yaml.safe_load_all(injected.text)
        if document["kind"] == "Framework"
        for role in document["spec"]["taskRoles"]
    }
    if ACCOUNT in named:
        cluster.kubectl("create", "serviceaccount", ACCOUNT, "--namespace", namespace)
