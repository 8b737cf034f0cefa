"""Agents as processes, and the API server they follow: rosters are published by hand.

The API server is the local cluster's, without controller and kubelet.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.api.roster import Roster, encode_roster
from framework.api.scalerequest import ScaleRequest, encode_request
from rendezvous.volume.records import NOTIFIED_FILE
from tests.rendezvous.gangs import build_gang, get_uid
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import HANG_SECONDS, wait_until

NAMESPACE = "default"
_MERGE = "application/merge-patch+json"


class Publisher:
    """One Framework's ConfigMap and Pods on a real API."""

    def __init__(self, http: JsonHttp, framework: str) -> None:
        self._http = http
        self.framework = framework
        self.name = build_configmap_name(framework)
        self._path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        metadata = {
            "name": self.name,
            "annotations": {constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION},
        }
        status, created = http.request("POST", self._path, {"metadata": metadata})
        assert status == 201, created
        self.uid = created["metadata"]["uid"]
        self.instance_uid = f"0_{self.uid}"

    def publish(self, roster: Roster) -> Roster:
        """Publish a roster as one of this attempt."""
        roster = roster._replace(
            framework=self.framework, namespace=NAMESPACE, instance_uid=self.instance_uid
        )
        stored = base64.b64encode(encode_roster(roster)).decode()
        self._patch({constants.ROSTER_KEY: stored})
        return roster

    def tell_scaler(self, request: ScaleRequest) -> None:
        """Write the request of a scaler."""
        self._patch({constants.SCALER_KEY: encode_request(request)})

    def _patch(self, data: dict[str, str]) -> None:
        path, patch = f"{self._path}/{self.name}", {"binaryData": data}
        status, answer = self._http.request("PATCH", path, patch, content_type=_MERGE)
        assert status == 200, answer

    def create_pod(self, role: str, index: int) -> str:
        """Create a Pod, which no kubelet runs; return its UID."""
        pod = {
            "metadata": {"name": f"{self.framework}-{role}-{index}"},
            "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]},
        }
        status, created = self._http.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        assert status == 201, created
        return str(created["metadata"]["uid"])

    def read_acknowledged(self, role: str, index: int) -> str:
        """Read the generation a Pod has acknowledged; "" if none."""
        return self.read_annotation(role, index, constants.ACKNOWLEDGED_GENERATION_ANNOTATION)

    def read_annotation(self, role: str, index: int, name: str) -> str:
        """Read an annotation of a Pod; "" if it has none of this name."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{self.framework}-{role}-{index}"
        annotations = self._http.request("GET", path)[1]["metadata"].get("annotations") or {}
        return str(annotations.get(name, ""))

    def build_env(
        self, address: str, token: str, volume: Path, role: str, index: int, pod_uid: str = ""
    ) -> dict[str, str]:
        """Build the environment of a container of one of its Pods."""
        account = volume.with_name(volume.name + "-account")
        account.mkdir(exist_ok=True)
        (account / "token").write_text(token)
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": "/nonexistent",
            constants.KUBE_APISERVER_ADDRESS_ENV: address,
            constants.SERVICE_ACCOUNT_DIR_ENV: str(account),
            constants.WORKING_DIR_ENV: str(volume),
            constants.TERMINATION_LOG_ENV: "/nonexistent",
            constants.FRAMEWORK_NAMESPACE: NAMESPACE,
            constants.FRAMEWORK_NAME: self.framework,
            constants.CONFIGMAP_NAME: self.name,
            constants.CONFIGMAP_UID: self.uid,
            constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: self.instance_uid,
            constants.TASKROLE_NAME: role,
            constants.TASK_INDEX: str(index),
            constants.POD_NAME: f"{self.framework}-{role}-{index}",
            constants.POD_UID: pod_uid or get_uid(role, index),
        }


class AgentProcess:
    """One agent; its lines arrive in ``text``."""

    def __init__(self, env: dict[str, str], *arguments: str, command: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*(command or (sys.executable, "-m", "rendezvous")), *arguments],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.text = ""
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def wait_for(self, text: str) -> None:
        """Wait for a text in the output; fail at once if the agent has ended without it."""
        wait_until(
            lambda: not self._thread.is_alive() or text in self.text,
            lambda: f"{text!r} in:\n{self.text}",
        )
        assert text in self.text, f"ended with {self.process.poll()}: no {text!r} in:\n{self.text}"

    def wait(self) -> int:
        code = self.process.wait(timeout=HANG_SECONDS)
        self._thread.join(timeout=HANG_SECONDS)
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Kill what is left; what a killed wrapper has started is killed by its group."""
        if self.process.poll() is None:
            for child in list_children(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            self.process.kill()
        self.process.wait()
        self._thread.join(timeout=HANG_SECONDS)
        assert self.process.stdout is not None
        # What a killed agent has left behind may hold the other end: closing would wait for it.
        if not self._thread.is_alive():
            self.process.stdout.close()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line


_WITH_MOVED_CLOCK = """
import os, sys
from framework.agent.clock import AgentClock
from rendezvous.app import run
class Clock(AgentClock):
    def monotonic(self):
        return super().monotonic() + {seconds} * os.path.exists(sys.argv[1])
code = run(sys.argv[2:], os.environ, Clock())
sys.stdout.flush()
os._exit(code)
"""


def build_command_with_moved_clock(sign: Path, seconds: int) -> tuple[str, ...]:
    """Build the command of an agent; from when ``sign`` is there, so much more time has passed."""
    script = _WITH_MOVED_CLOCK.format(seconds=seconds)
    return (sys.executable, "-c", script, str(sign))


def list_children(pid: int) -> list[int]:
    """List the children of all threads of a process."""
    children = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += [int(text) for text in path.read_text().split()]
    return children


@contextlib.contextmanager
def run_agent(
    env: dict[str, str], *arguments: str, command: tuple[str, ...] = ()
) -> Iterator[AgentProcess]:
    agent = AgentProcess(env, *arguments, command=command)
    try:
        yield agent
    finally:
        agent.stop()


def read_changes(path: Path) -> list[dict[str, Any]]:
    """Read what a command wrote that appends its input to a file; it may be writing a line now."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


NATIVE = ("watch", "--sidecar-end", "native")


class Gang:
    """A gang, one member's volume, and the notifications of its process."""

    def __init__(self, api: Access, publisher: Publisher, volume: Path) -> None:
        self.publisher = publisher
        self.volume = volume
        self.notified = volume.with_name("notified")
        self.env = publisher.build_env(api.url, api.token, volume, "worker", 0)
        self.env["FB_DEBOUNCE_SEC"] = "0"
        self.env["FB_NOTIFY_COMMAND"] = f"cat >>{self.notified}"

    def publish(self, count: int, generation: int) -> Roster:
        return self.publisher.publish(build_gang(count)._replace(generation=generation))

    def read_current(self) -> int:
        try:
            return int((self.volume / "current").readlink().name.removeprefix("gen-"))
        except FileNotFoundError:
            return 0

    def wait_for_generation(self, number: int) -> None:
        wait_until(lambda: self.read_current() == number)

    def wait_until_notified(self, count: int) -> None:
        wait_until(lambda: len(read_changes(self.notified)) == count)
        last = read_changes(self.notified)[-1]["generation"]
        # An agent killed before it has recorded this notifies once more.
        note = self.volume / NOTIFIED_FILE
        wait_until(lambda: note.exists() and int(note.read_text().split()[0]) == last)

    def count_hosts(self) -> int:
        return len((self.volume / "current" / "hosts.horovod").read_text().splitlines())
