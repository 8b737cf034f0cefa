"""A real Kubernetes node: control plane, containerd, kubelet, kube-proxy, DNS and our images.

Usage::

    python -m tests.support.machine.realnode run -- COMMAND ...

It builds the images and missing programs, then runs the command beside the node in its own
namespaces (``linuxnamespaces``): the machine's network, firewall and mounts do not change, and
nothing outlives the command.
"""

import ipaddress
import json
import os
import secrets
import shutil
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.machine.linuxnamespaces import CGROUP, is_inside, run_inside
from tests.support.machine.nodeimages import (
    PAUSE_IMAGE,
    find_cache,
    install_image_tools,
    prepare_images,
)
from tests.support.machine.prerequisites import (
    MissingPrerequisiteError,
    install_programs,
    report_missing,
)
from tests.support.servers.binaries import (
    CONTROL_PLANE,
    NODE,
    BuildError,
    find_binaries,
    find_programs,
)
from tests.support.servers.childprocess import ChildError, ChildProcess
from tests.support.servers.controlplane import (
    Access,
    ControlPlane,
    Profile,
    run_to_end,
    write_kubeconfig,
)
from tests.support.servers.frameworkcrd import wait_ready
from tests.support.servers.pki import issue_certificate
from tests.support.waiting import wait_until

NODE_NAME = "node1"
NODE_ADDRESS = "10.250.0.1"
POD_RANGE = ipaddress.ip_network("10.244.0.0/24")
TEMPLATES = Path(__file__).with_name("node")
DNS_DOMAIN = "cluster.local"
CNI_FOLDER = Path("/usr/lib/cni")
IMAGES_ENV = "FRAMEWORKBARRIER_NODE_IMAGES"
FOLDER_ENV = "FRAMEWORKBARRIER_NODE_FOLDER"
# Program -> Debian package.
PACKAGES = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2"}
PACKAGES |= {"iptables": "iptables", "nsenter": "util-linux", "openssl": "openssl"}
PACKAGES |= {"sysctl": "procps", "unshare": "util-linux"}
# The bridge and host-local plugins; the package has no program on the PATH.
CNI_PACKAGE = "containernetworking-plugins"
# Program -> user name and group of its static token. CoreDNS gets all rights: its own role is not
# under test here.
USERS = {
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    "coredns": ("coredns", "system:masters"),
}
_APISERVER_FLAGS = (
    "--allow-privileged=true",
    "--endpoint-reconciler-type=lease",
    "--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
    "--kubelet-client-key={pki}/apiserver-kubelet.key",
    "--kubelet-certificate-authority={pki}/ca.crt",
    "--kubelet-preferred-address-types=InternalIP",
)


class RealNode:
    """A cluster of one machine; its folder is deleted with it."""

    def __init__(self, programs: Mapping[str, Path], images: Mapping[str, Path]) -> None:
        self._programs = programs
        self._images = images
        self._tokens = {name: secrets.token_hex(16) for name in USERS}
        self.folder = Path(tempfile.mkdtemp(prefix="frameworkbarrier-node-"))
        profile = Profile(
            address=NODE_ADDRESS,
            authorization="Node,RBAC",
            admission_plugins="NodeRestriction,OwnerReferencesPermissionEnforcement",
            controllers="*",
            users={self._tokens[name]: user for name, user in USERS.items()},
            apiserver_flags=_APISERVER_FLAGS,
        )
        self._plane = ControlPlane(find_binaries(os.environ, build=False), profile)
        self._children: dict[str, ChildProcess] = {}

    def start(self) -> Access:
        """Start everything, load the images, wait until the node is Ready.

        Raises:
            ChildError: a program ended or did not get ready; with the end of its log.
        """
        _set_up_network()
        self._issue_certificates()
        self._start_containerd()
        access = self._plane.start()
        self._load_images()
        self._start_kubelet(access)
        scheduler = self._write_kubeconfig(access, "kube-scheduler")
        self._launch("kube-scheduler", f"--kubeconfig={scheduler}", "--leader-elect=false")
        self._start_proxy(access)
        self._start_dns(access)
        self._wait_until_ready(access)
        return access

    def stop(self) -> None:
        """Kill the processes; mounts and networks end with the namespaces."""
        for child in reversed(self._children.values()):
            child.kill()
        self._plane.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _issue_certificates(self) -> None:
        pki = self._plane.pki.folder
        names = (f"DNS:{NODE_NAME}", f"IP:{NODE_ADDRESS}")
        issue_certificate(pki, "kubelet", f"/CN={NODE_NAME}", "serverAuth", *names)
        issue_certificate(pki, "apiserver-kubelet", "/O=system:masters/CN=apiserver", "clientAuth")

    def _start_containerd(self) -> None:
        (self.folder / "cni").mkdir()
        self._render("pods.conflist", "cni/10-pods.conflist")
        config = self._render("containerd.toml")
        self._launch("containerd", f"--config={config}")
        self._wait_until("containerd", self._is_containerd_ready)

    def _load_images(self) -> None:
        for name, archive in self._images.items():
            self._ctr("images", "import", "--snapshotter=overlayfs", "--index-name", name, archive)

    def _start_kubelet(self, access: Access) -> None:
        config = self._render("kubelet.yaml")
        (self.folder / "resolv.conf").touch()
        kubeconfig = self._write_kubeconfig(access, "kubelet")
        self._launch(
            "kubelet",
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={NODE_ADDRESS}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'kubelet-certificates'}",
        )
        # For tests that stop it for a while.
        (self.folder / "kubelet.pid").write_text(str(self._children["kubelet"].pid))

    def _start_proxy(self, access: Access) -> None:
        self._write_kubeconfig(access, "kube-proxy")
        config = self._render("kube-proxy.yaml")
        self._launch("kube-proxy", f"--config={config}")

    def _start_dns(self, access: Access) -> None:
        self._write_kubeconfig(access, "coredns")
        config = self._render("Corefile")
        self._launch("coredns", "-conf", str(config))

    def _wait_until_ready(self, access: Access) -> None:
        http = access.open_http()
        wait_ready(http, f"/api/v1/nodes/{NODE_NAME}", self._children["kubelet"])

        def is_node_ready() -> bool:
            _, node = http.request("GET", f"/api/v1/nodes/{NODE_NAME}")
            conditions = node.get("status", {}).get("conditions", [])
            return any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)

        self._wait_until("kubelet", is_node_ready)

    def _render(self, template: str, name: str | None = None) -> Path:
        """Write a file of the node's configuration from its template; return its path."""
        path = self.folder / (name or template)
        content = string.Template((TEMPLATES / template).read_text()).substitute(
            address=NODE_ADDRESS,
            cgroup=CGROUP,
            cni=CNI_FOLDER,
            domain=DNS_DOMAIN,
            folder=self.folder,
            gateway=next(POD_RANGE.hosts()),
            node=NODE_NAME,
            pause_image=PAUSE_IMAGE,
            pki=self._plane.pki.folder,
            pod_range=POD_RANGE,
        )
        path.write_text(content)
        return path

    def _write_kubeconfig(self, access: Access, name: str) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        return write_kubeconfig(path, access.url, self._plane.pki.ca_cert, self._tokens[name])

    def _launch(self, name: str, *arguments: str) -> None:
        program = str(self._programs.get(name, name))
        log = self.folder / f"{name}.log"
        self._children[name] = ChildProcess(name, [program, *arguments], log=log)

    def _wait_until(self, name: str, is_ready: Callable[[], bool]) -> None:
        child = self._children[name]

        def is_up() -> bool:
            child.raise_if_ended()
            return is_ready()

        wait_until(is_up, child.tail)

    def _is_containerd_ready(self) -> bool:
        return self._run_ctr("version").returncode == 0

    def _ctr(self, *arguments: str | Path) -> None:
        done = self._run_ctr(*arguments)
        if done.returncode != 0:
            raise ChildError(f"ctr {arguments}: {done.stderr}")

    def _run_ctr(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        socket = f"--address={self.folder / 'containerd.sock'}"
        command = ["ctr", socket, "--namespace=k8s.io", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def _set_up_network() -> None:
    """Give the namespace an address for the node, without a route to other machines."""
    for command in (
        "ip link set lo up",
        "ip link add kube0 type bridge",
        f"ip address add {NODE_ADDRESS}/32 dev kube0",
        "ip link set kube0 up",
        "sysctl --quiet --write net.ipv4.ip_forward=1",
    ):
        subprocess.run(command.split(), check=True)


def install_node_programs() -> None:
    """Install the Debian packages that a node needs and this machine lacks.

    Raises:
        MissingPrerequisiteError: some are missing and cannot be installed here.
    """
    install_programs(PACKAGES, [] if CNI_FOLDER.is_dir() else [CNI_PACKAGE])


def run(command: list[str]) -> int:
    """Run a command beside a node; return its exit code."""
    try:
        if is_inside():
            return _run_beside_node(command)
        install_node_programs()
        install_image_tools()
        find_programs(os.environ, (*CONTROL_PLANE, *NODE), build=True)
        images = {name: str(path) for name, path in prepare_images().items()}
        os.environ[IMAGES_ENV] = json.dumps(images)
        node = [sys.executable, "-m", __spec__.name, "run", "--", *command]
        return run_inside(node, find_cache())
    except MissingPrerequisiteError as e:
        return report_missing(e)
    except (BuildError, ChildError) as e:
        print(f"no node: {e}", file=sys.stderr)
        return 1


def _run_beside_node(command: list[str]) -> int:
    started = time.monotonic()
    images = {name: Path(path) for name, path in json.loads(os.environ[IMAGES_ENV]).items()}
    node = RealNode(find_programs(os.environ, NODE, build=False), images)
    try:
        access = node.start()
        print(f"node Ready after {time.monotonic() - started:.1f} s", flush=True)
        environment = {**os.environ, **access.to_env(), FOLDER_ENV: str(node.folder)}
        return run_to_end(command, environment)
    finally:
        node.stop()


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1:3] != ["run", "--"]:
        sys.exit("usage: python -m tests.support.machine.realnode run -- COMMAND ...")
    sys.exit(run(sys.argv[3:]))
