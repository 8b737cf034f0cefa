"""A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager.

Usage::

    python -m tests.support.servers.controlplane run -- COMMAND ...
    python -m tests.support.servers.controlplane build -- COMMAND ...

``run`` starts one, runs the command with the variables of ``Access.to_env`` and stops it. ``build``
only builds the programs before it runs the command, whose processes each start one. There is no
scheduler and no kubelet: ``fakes.kubelet`` moves the Pods. Instead of starting one, an existing
cluster is used with FRAMEWORKBARRIER_USE_KUBECONFIG=1 and KUBECONFIG.
"""

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from framework.kube.config import load_kube_config
from tests.support.machine.prerequisites import (
    MissingPrerequisiteError,
    install_programs,
    report_missing,
)
from tests.support.servers.binaries import KUBECTL_ENV, Binaries, BuildError, find_binaries
from tests.support.servers.childprocess import ChildError, ChildProcess, find_free_ports
from tests.support.servers.frameworkcrd import install_crd, wait_ready
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.pki import create_pki

SERVER_ENV = "FRAMEWORKBARRIER_KUBE_SERVER"
TOKEN_ENV = "FRAMEWORKBARRIER_KUBE_TOKEN"
CA_ENV = "FRAMEWORKBARRIER_KUBE_CA"
AUDIT_LOG_ENV = "FRAMEWORKBARRIER_KUBE_AUDIT_LOG"
USE_KUBECONFIG_ENV = "FRAMEWORKBARRIER_USE_KUBECONFIG"
KUBECONFIG_ENV = "KUBECONFIG"
_ENV_OF_ACCESS = {
    "url": SERVER_ENV,
    "token": TOKEN_ENV,
    "ca_file": CA_ENV,
    "kubeconfig": KUBECONFIG_ENV,
    "kubectl": KUBECTL_ENV,
    "audit_log": AUDIT_LOG_ENV,
}

DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
START_TRIES = 3
# Program -> Debian package.
PROGRAMS = {"openssl": "openssl"}
SERVICE_RANGE = "10.96.0.0/16"
# Without the controller that creates a ConfigMap in each namespace: tests count objects.
CONTROLLERS = (
    "garbage-collector-controller,horizontal-pod-autoscaler-controller,namespace-controller,"
    "resourcequota-controller,serviceaccount-controller"
)
# A client that sets blockOwnerDeletion needs the right to update the owner's finalizers, as in the
# strictest clusters.
ADMISSION_PLUGINS = "OwnerReferencesPermissionEnforcement"
# Logs the requests of service accounts, for tests of their rights; those of the administrator are
# too many.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Access:
    """The access of tests to an API server, as its administrator."""

    url: str
    """URL of the server."""
    token: str
    """Token of the administrator."""
    ca_file: str | None
    """CA of the server; None for plain HTTP, or a known CA."""
    kubeconfig: str
    """Path of a kubeconfig with these values."""
    kubectl: str | None
    """Path of kubectl; None if there is none."""
    audit_log: str | None = None
    """Path of the audit log; None if the server was not started here."""

    def open_http(self) -> JsonHttp:
        """Make a plain client for the objects around the code under test."""
        return JsonHttp(self.url, self.token, self.ca_file)

    def to_env(self) -> dict[str, str]:
        """Render the variables that the test suites read."""
        values = {env: getattr(self, field) for field, env in _ENV_OF_ACCESS.items()}
        return {env: value for env, value in values.items() if value is not None}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Access | None":
        """Read what ``to_env`` renders; None if the variables are not set."""
        if SERVER_ENV not in env:
            return None
        values: dict[str, Any] = {field: env.get(name) for field, name in _ENV_OF_ACCESS.items()}
        return cls(**values)


@dataclass(frozen=True)
class Profile:
    """The differences between an API server for tests of the API and one with a node."""

    address: str = "127.0.0.1"
    """Address on which the API server listens, also for Pods."""
    authorization: str = "RBAC"
    """Its ``--authorization-mode``."""
    admission_plugins: str = ADMISSION_PLUGINS
    """Plugins in addition to the default ones."""
    controllers: str = CONTROLLERS
    """The controllers of kube-controller-manager."""
    users: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Further static tokens: token -> (user name, group or "")."""
    apiserver_flags: Sequence[str] = ()
    """Flags after all others, which override them; ``{pki}`` is the certificates' folder."""


class ControlPlane:
    """The three processes and their folder, which is removed with them."""

    def __init__(self, binaries: Binaries, profile: Profile | None = None) -> None:
        self._binaries = binaries
        self._profile = profile or Profile()
        self._folder = Path(tempfile.mkdtemp(prefix="frameworkbarrier-kube-"))
        self.pki = create_pki(self._folder / "pki", f"IP:{self._profile.address}")
        self._children: list[ChildProcess] = []
        self._admin_token = secrets.token_hex(16)
        atexit.register(self.stop)

    def start(self) -> Access:
        """Start all three, install the Framework CRD, wait until Pods can be created.

        Raises:
            ChildError: a process ended or did not get ready; with the end of its log.
        """
        for attempt in range(START_TRIES):
            try:
                return self._start_once()
            except ChildError as e:
                # Another program may have taken a port that was free before.
                self._stop_children()
                if attempt == START_TRIES - 1 or "address already in use" not in str(e):
                    raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Kill the processes: their data is not kept."""
        atexit.unregister(self.stop)
        self._stop_children()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_once(self) -> Access:
        client_port, peer_port, secure_port = find_free_ports(3)
        etcd_url = f"http://127.0.0.1:{client_port}"
        url = f"https://{self._profile.address}:{secure_port}"
        kubeconfig = write_kubeconfig(
            self._folder / "kubeconfig", url, self.pki.ca_cert, self._admin_token
        )
        access = Access(
            url=url,
            token=self._admin_token,
            ca_file=str(self.pki.ca_cert),
            kubeconfig=str(kubeconfig),
            kubectl=str(self._binaries.kubectl),
            audit_log=str(self._folder / "audit.log"),
        )
        etcd = self._launch("etcd", self._etcd_command(etcd_url, f"http://127.0.0.1:{peer_port}"))
        apiserver = self._launch("kube-apiserver", self._apiserver_command(etcd_url, url))
        http = access.open_http()
        wait_ready(http, "/readyz", etcd, apiserver)
        # Before the garbage collector, which looks for new kinds only every 30 s.
        install_crd(http)
        kcm = self._launch("kube-controller-manager", self._kcm_command(access))
        wait_ready(http, DEFAULT_ACCOUNT, etcd, apiserver, kcm)
        return access

    def _etcd_command(self, client_url: str, peer_url: str) -> list[str]:
        data = Path(tempfile.mkdtemp(prefix="etcd-", dir=self._folder))
        return [
            str(self._binaries.etcd),
            f"--data-dir={data}",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_command(self, etcd_url: str, url: str) -> list[str]:
        pki = self.pki
        tokens = self._folder / "tokens.csv"
        users = {self._admin_token: ("admin", "system:masters"), **self._profile.users}
        tokens.touch(mode=0o600)
        tokens.write_text(
            "".join(f'{token},{name},{name},"{group}"\n' for token, (name, group) in users.items())
        )
        audit_policy = self._folder / "audit-policy.yaml"
        audit_policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        return [
            str(self._binaries.kube_apiserver),
            f"--etcd-servers={etcd_url}",
            f"--bind-address={self._profile.address}",
            f"--advertise-address={self._profile.address}",
            f"--secure-port={url.rpartition(':')[2]}",
            f"--tls-cert-file={pki.server_cert}",
            f"--tls-private-key-file={pki.server_key}",
            f"--token-auth-file={tokens}",
            f"--authorization-mode={self._profile.authorization}",
            f"--enable-admission-plugins={self._profile.admission_plugins}",
            f"--audit-policy-file={audit_policy}",
            f"--audit-log-path={self._folder / 'audit.log'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki.service_account_key}",
            f"--service-account-key-file={pki.service_account_public_key}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--endpoint-reconciler-type=none",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            "--profiling=false",
            *(flag.format(pki=pki.folder) for flag in self._profile.apiserver_flags),
        ]

    def _kcm_command(self, access: Access) -> list[str]:
        return [
            str(self._binaries.kube_controller_manager),
            f"--kubeconfig={access.kubeconfig}",
            f"--controllers={self._profile.controllers}",
            f"--root-ca-file={access.ca_file}",
            "--leader-elect=false",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--secure-port=0",
        ]

    def _launch(self, name: str, command: list[str]) -> ChildProcess:
        child = ChildProcess(name, command, log=self._folder / f"{name}.log")
        self._children.append(child)
        return child

    def _stop_children(self) -> None:
        for child in reversed(self._children):
            child.kill()
        self._children.clear()


def write_kubeconfig(path: Path, url: str, ca_file: Path | str | None, token: str) -> Path:
    """Write the kubeconfig of one user, with a token."""
    authority = {} if ca_file is None else {"certificate-authority": str(ca_file)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, **authority}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return path


@contextmanager
def open_control_plane(env: Mapping[str, str], *, build: bool) -> Iterator[Access]:
    """Open an API server: that of the environment, an existing cluster, or one of its own.

    Raises:
        MissingPrerequisiteError: there is none and none can be started here.
    """
    access = Access.from_env(env)
    if access is None and env.get(USE_KUBECONFIG_ENV) == "1":
        access = read_existing_cluster(env)
    if access is not None:
        yield access
        return
    plane = ControlPlane(find_binaries(env, build=build))
    try:
        yield plane.start()
    finally:
        plane.stop()


def read_existing_cluster(env: Mapping[str, str]) -> Access:
    """Read the cluster of $KUBECONFIG, whose user must have a token."""
    config = load_kube_config(None, None, env)
    token = config.token
    if config.token_file is not None:
        token = Path(config.token_file).read_text(encoding="utf-8").strip()
    if not token:
        raise MissingPrerequisiteError(
            f"the user of {KUBECONFIG_ENV} has no token: make one (kubectl create token NAME)"
        )
    ca_file = config.ca_file
    if config.ca_pem is not None:
        descriptor, ca_file = tempfile.mkstemp(prefix="frameworkbarrier-ca-")
        with os.fdopen(descriptor, "w") as stream:
            stream.write(config.ca_pem)
        atexit.register(Path(ca_file).unlink, missing_ok=True)
    return Access(
        url=config.server,
        token=token,
        ca_file=ca_file,
        kubeconfig=env[KUBECONFIG_ENV],
        kubectl=shutil.which("kubectl"),
    )


def run(command: list[str]) -> int:
    """Run a command beside a control plane; return its exit code."""
    started = time.monotonic()
    with open_control_plane(os.environ, build=True) as access:
        elapsed = time.monotonic() - started
        print(f"control plane ready after {elapsed:.1f} s: {access.url}", flush=True)
        return run_to_end(command, {**os.environ, **access.to_env()})


def build(command: list[str]) -> int:
    """Run a command whose processes start control planes of their own; return its exit code."""
    if Access.from_env(os.environ) is None and os.environ.get(USE_KUBECONFIG_ENV) != "1":
        find_binaries(os.environ, build=True)
    return run_to_end(command, os.environ)


def main(mode: Callable[[list[str]], int], command: list[str]) -> int:
    """Run a command in a mode; print a missing prerequisite."""
    try:
        install_programs(PROGRAMS)
        return mode(command)
    except MissingPrerequisiteError as e:
        return report_missing(e)
    except (BuildError, ChildError) as e:
        print(f"no control plane: {e}", file=sys.stderr)
        return 1


def run_to_end(command: list[str], env: Mapping[str, str]) -> int:
    """Wait for the command, through signals: it must end before the control plane."""
    with subprocess.Popen(command, env=env) as child:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            # Ctrl-C on a terminal has already reached the child.
            if number == signal.SIGTERM:
                child.terminate()

        signal.signal(signal.SIGINT, pass_on)
        signal.signal(signal.SIGTERM, pass_on)
        code = child.wait()
        return code if code >= 0 else 128 - code


MODES = {"build": build, "run": run}

if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in MODES or sys.argv[2] != "--":
        sys.exit("usage: python -m tests.support.servers.controlplane run|build -- COMMAND ...")
    sys.exit(main(MODES[sys.argv[1]], sys.argv[3:]))
