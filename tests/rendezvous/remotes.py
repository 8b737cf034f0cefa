"""A launcher and workers whose agents serve remote commands, as processes on loopback addresses."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from controller.core.objects.object_templates import GangSecrets
from controller.execute.gang_secrets import generate_gang_secrets
from framework.api import constants
from framework.api.roster import Member, RoleRoster, fingerprint_uid
from framework.clock import SystemKeys
from tests.rendezvous.agents import AgentProcess, Publisher, run_agent
from tests.rendezvous.gangs import build_role, build_roster, get_uid
from tests.support.servers.childprocess import find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS

LAUNCHER = "127.0.9.9"


def get_worker_address(index: int) -> str:
    return f"127.0.9.{index + 1}"


def write_secrets(folder: Path, attempt: str, secrets: GangSecrets | None = None) -> Path:
    """Write what the Secret of the gang key has; return the path of the key."""
    secrets = secrets or generate_gang_secrets(SystemKeys())
    folder.mkdir(exist_ok=True)
    (folder / constants.GANG_CERTIFICATE).write_text(secrets.certificate)
    (folder / constants.GANG_CERTIFICATE_KEY).write_text(secrets.private_key)
    (folder / constants.GANG_KEY).write_text(f"{attempt}:{secrets.key}")
    return folder / constants.GANG_KEY


def build_members(role: str, *addresses: str) -> RoleRoster:
    members = tuple(
        Member(index, (address,), fingerprint_uid(get_uid(role, index)), 0)
        for index, address in enumerate(addresses)
    )
    return build_role(role, len(addresses))._replace(members=members)


class Team:
    """The launcher's side, and where the workers are."""

    def __init__(self, api: Access, publisher: Publisher, root: Path, count: int) -> None:
        self.api = api
        self.publisher = publisher
        self.root = root
        self.count = count
        self.workers: list[AgentProcess] = []
        (self.port,) = find_free_ports(1)
        self.attempt = publisher.instance_uid
        self.key = write_secrets(root / "secret", self.attempt)

    def publish(self, generation: int = 1, count: int = 0) -> None:
        workers = [get_worker_address(index) for index in range(count or self.count)]
        roles = (build_members("launcher", LAUNCHER), build_members("worker", *workers))
        self.publisher.publish(build_roster(*roles, generation=generation))

    def build_env(self, role: str, index: int) -> dict[str, str]:
        volume = self.root / f"{role}-{index}"
        env = self.publisher.build_env(self.api.url, self.api.token, volume, role, index)
        return {
            **env,
            "FB_GANG_KEY_FILE": str(self.key),
            "FB_RSH_SERVER_PORT": str(self.port),
            "FB_DEBOUNCE_SEC": "0",
            "FB_STOP_GRACE_SEC": "1",
            "FB_RSH_TIMEOUT_SEC": str(HANG_SECONDS),
        }

    def render(self) -> None:
        """Write the launcher's files, as its sidecar does."""
        with run_agent(self.build_env("launcher", 0), "render") as agent:
            assert agent.wait() == 0, agent.text

    def open(
        self, host: str, *words: str, flags: tuple[str, ...] = (), **env: str
    ) -> "subprocess.Popen[bytes]":
        """Start a remote command; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, "-m", "rendezvous", "rsh", *flags, host, "--", *words],
            env={**self.build_env("launcher", 0), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(
        self, host: str, *words: str, given: bytes = b"", flags: tuple[str, ...] = (), **env: str
    ) -> "tuple[int, str, str]":
        """Run a remote command to its end: exit code, output, errors."""
        with self.open(host, *words, flags=flags, **env) as process:
            output, errors = process.communicate(given)
            return process.returncode, output.decode(), errors.decode()


@contextlib.contextmanager
def open_team(
    api: Access, publisher: Publisher, root: Path, count: int = 1, **env: str
) -> Iterator[Team]:
    """Start workers that serve remote commands, for a launcher with a rendered roster."""
    root.mkdir(exist_ok=True)
    team = Team(api, publisher, root, count)
    with contextlib.ExitStack() as stack:
        for index in range(count):
            worker_env = {**team.build_env("worker", index), "FB_RSH": "on", **env}
            command = ("run", "--", "sleep", "100000")
            team.workers.append(stack.enter_context(run_agent(worker_env, *command)))
        team.publish()
        team.render()
        for worker in team.workers:
            worker.wait_for("remote commands are served on")
        yield team


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
