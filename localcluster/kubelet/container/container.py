"""One container of a Pod: its starts, its end, its restarts, its probes.

``view`` is its present state; ``on_change`` is called after each change.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from framework.kube.client import KubeClient
from framework.kube.errors import KubeError, NotFoundError
from framework.kube.resources import Object
from localcluster.kubelet.container import launcher
from localcluster.kubelet.container.launch import (
    PodSetup,
    UnknownImageError,
    build_launch,
)
from localcluster.kubelet.container.path_replacement import PathReplacement
from localcluster.kubelet.container.process import ContainerProcess, LaunchSpec
from localcluster.kubelet.container.restarts import CrashBackoff, RestartPolicy
from localcluster.kubelet.environment import Reference, Sources, list_env_references
from localcluster.kubelet.events import EventReason
from localcluster.kubelet.fields import FieldError
from localcluster.kubelet.probes import ProbeResult, follow_probe, probe_once
from localcluster.kubelet.status import (
    ContainerState,
    ContainerView,
    Running,
    Terminated,
    Waiting,
)
from localcluster.stdio import StartError, Stdio, Streams

logger = logging.getLogger(__name__)

_CONFIG_RETRY_SECONDS = 2.0
_OUTPUT_LIMIT = 10 * 1024


class ContainerRunner:
    """A container and its process, if it has one."""

    def __init__(
        self, container: Object, pod: Object, on_change: Callable[[], None], *, is_init: bool
    ) -> None:
        """Start in the state Waiting; ``setup`` must be set before ``run``."""
        self.container = container
        self.setup: PodSetup | None = None
        self.passed = asyncio.Event()
        has_init = bool(pod["spec"].get("initContainers"))
        waiting = Waiting("PodInitializing" if has_init else "ContainerCreating")
        self.view = ContainerView(
            name=container["name"],
            image=container.get("image") or "",
            state=waiting,
            is_init=is_init,
            is_sidecar=is_init and container.get("restartPolicy") == "Always",
        )
        self._pod = pod
        self._on_change = on_change
        self._process: ContainerProcess | None = None
        self._spec: LaunchSpec | None = None

    @property
    def _ready_setup(self) -> PodSetup:
        if self.setup is None:
            raise RuntimeError("a container runs before its Pod is set up")
        return self.setup

    # --- Running --------------------------------------------------------------------------------

    async def run(self, policy: RestartPolicy) -> None:
        """Run the container, with restarts by the policy, until it has ended for good."""
        machine = self._ready_setup.machine
        backoff = CrashBackoff(machine.backoff)
        while True:
            begun = machine.clock.monotonic()
            ended = await self._run_once()
            if not policy.should_restart(ended.exit_code):
                return
            wait = backoff.next_wait_seconds(machine.clock.monotonic() - begun)
            if wait > 0:
                await self._wait_out_crash(wait, ended)

    async def _wait_out_crash(self, seconds: float, ended: Terminated) -> None:
        metadata = self._pod["metadata"]
        message = (
            f"back-off {seconds:g}s restarting failed container={self.view.name} "
            f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        )
        self._record(EventReason.BACK_OFF, message)
        self._set_state(Waiting("CrashLoopBackOff", message), last=ended)
        await asyncio.sleep(seconds)

    async def _launch(self) -> ContainerProcess:
        self._spec = await self._prepare()
        self._process = ContainerProcess(self._ready_setup.machine.fork_server, self._spec)
        return self._process

    async def _run_once(self) -> Terminated:
        process = await self._launch()
        self._count_run()
        try:
            await process.started()
        except StartError as e:
            await process.wait()
            self._record(EventReason.FAILED, f"Error: {e}")
            return self._end(launcher.START_FAILED, reason="StartError", message=str(e))
        self._begin()
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(self._probe(), name=f"probe {self.view.name}")
            code = await process.wait()
            probing.cancel()
        return self._end(code)

    async def _prepare(self) -> LaunchSpec:
        """Build the launch; wait while an object that the container refers to is missing."""
        setup = self._ready_setup
        references = list_env_references(self.container)
        namespace = self._pod["metadata"]["namespace"]
        while True:
            try:
                sources = await fetch_sources(setup.machine.client, namespace, references)
                spec = build_launch(self.container, setup, sources)
                return replace(spec, log=setup.machine.logs.open_log(self._pod, self.view.name))
            except UnknownImageError as e:
                self._wait_with_error("ErrImagePull", str(e))
                await asyncio.Event().wait()
            except (FieldError, KubeError) as e:
                self._wait_with_error("CreateContainerConfigError", str(e))
            except OSError as e:
                self._wait_with_error("CreateContainerError", str(e))
            await asyncio.sleep(_CONFIG_RETRY_SECONDS)

    def _wait_with_error(self, reason: str, message: str) -> None:
        state = Waiting(reason, message)
        if self.view.state != state:
            self._record(EventReason.FAILED, f"Error: {message}")
            self._set_state(state)

    def _count_run(self) -> None:
        """Count a run; the first run is no restart."""
        state, last = self.view.state, self.view.last
        if isinstance(state, Terminated):
            last = state
        count = self.view.restart_count + (1 if last is not None else 0)
        identity = f"{self._pod['metadata']['uid']}/{self.view.name}/{count}"
        container_id = f"local://{hashlib.sha256(identity.encode()).hexdigest()}"
        # No ``on_change``: the container is Running within milliseconds.
        self.view = replace(self.view, last=last, restart_count=count, container_id=container_id)

    def _begin(self) -> None:
        has_startup = "startupProbe" in self.container
        is_ready = not has_startup and "readinessProbe" not in self.container
        self._record(EventReason.STARTED, f"Started container {self.view.name}")
        self._set_state(
            Running(self._ready_setup.machine.clock.now()),
            is_started=not has_startup,
            is_ready=is_ready,
        )

    def _end(self, code: int, reason: str = "", message: str = "") -> Terminated:
        """Record how the process ended; once for each process."""
        setup = self._ready_setup
        log = None if self._spec is None else self._spec.log
        self._process = None
        if log is not None:
            setup.machine.logs.close_log(log)
        state = self.view.state
        ended = Terminated(
            exit_code=code,
            reason=reason or ("Completed" if code == 0 else "Error"),
            message=message or self._read_termination_message(code, log),
            started_at=state.started_at if isinstance(state, Running) else None,
            finished_at=setup.machine.clock.now(),
            container_id=self.view.container_id,
        )
        self._set_state(ended, is_ready=False, is_started=False)
        return ended

    def _read_termination_message(self, code: int, log: Path | None) -> str:
        setup = self._ready_setup
        message = setup.directory.read_termination_log(self.view.name)
        policy = self.container.get("terminationMessagePolicy")
        if not message and code != 0 and policy == "FallbackToLogsOnError" and log is not None:
            return setup.machine.logs.read_tail(log)
        return message

    def _set_state(
        self,
        state: ContainerState,
        *,
        last: Terminated | None = None,
        is_ready: bool = False,
        is_started: bool = False,
    ) -> None:
        self.view = replace(
            self.view,
            state=state,
            last=last or self.view.last,
            is_ready=is_ready,
            is_started=is_started,
        )
        if self.view.is_passed:
            self.passed.set()
        self._on_change()

    def _record(self, reason: EventReason, message: str) -> None:
        events = self._ready_setup.machine.events
        kind = "initContainers" if self.view.is_init else "containers"
        events.record(self._pod, reason, message, f"spec.{kind}{{{self.view.name}}}")

    # --- Stopping -------------------------------------------------------------------------------

    async def stop(self, grace_seconds: float, kill_now: asyncio.Event) -> None:
        """End the process; ``run`` must have ended.

        SIGTERM comes first if there is time; SIGKILL after ``grace_seconds``, or at ``kill_now``.
        """
        process = self._process
        if process is not None:
            if not process.has_ended:
                self._record(EventReason.KILLING, f"Stopping container {self.view.name}")
            self._end(await self._stop_process(process, grace_seconds, kill_now))
        elif isinstance(self.view.state, Waiting) and self.view.last is not None:
            # Between two runs: the state is the end of the last run.
            self.view = replace(self.view, state=self.view.last)

    async def _stop_process(
        self, process: ContainerProcess, grace_seconds: float, kill_now: asyncio.Event
    ) -> int:
        if grace_seconds > 0 and not kill_now.is_set():
            polite = asyncio.create_task(self._ask_to_end(process), name=f"stop {self.view.name}")
            killing = asyncio.create_task(kill_now.wait(), name=f"kill {self.view.name}")
            tasks = {polite, killing}
            try:
                await asyncio.wait(
                    tasks, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return await process.wait() if process.has_ended else await process.kill()

    async def _ask_to_end(self, process: ContainerProcess) -> None:
        with contextlib.suppress(StartError):
            await process.started()
            hook = (self.container.get("lifecycle") or {}).get("preStop")
            if hook and not process.has_ended:
                await self._run_pre_stop(hook)
        process.terminate()
        await process.wait()

    async def _run_pre_stop(self, hook: Object) -> None:
        # No timeout of its own: the caller ends it with the grace period.
        result = await probe_once(hook, self, timeout_seconds=None)
        if not result.ok:
            self._record(EventReason.FAILED_PRE_STOP_HOOK, f"PreStopHook failed: {result.message}")

    # --- Probes ---------------------------------------------------------------------------------

    @property
    def pod_ip(self) -> str:
        """The Pod's address."""
        return self._ready_setup.facts.pod_ips[0]

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to the container as the node does."""
        return await self._ready_setup.machine.network.connect(host, port)

    def resolve_port(self, port: int | str) -> int:
        """Return the number of a port that may be named; an unknown name is a ValueError."""
        for stated in self.container.get("ports") or ():
            if stated.get("name") == port:
                return int(stated["containerPort"])
        return int(port)

    async def execute(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command for a probe or a hook; return exit code and output."""
        # A file instead of a pipe: a command with much output must not wait for a reader.
        output = os.memfd_create("output")
        try:
            code = await self.run_command(argv, Stdio(stdout=output))
            return code, os.pread(output, _OUTPUT_LIMIT, 0).decode("utf-8", "replace")
        except StartError as e:
            return launcher.START_FAILED, str(e)
        finally:
            os.close(output)

    async def run_command(self, argv: Sequence[str], stdio: Stdio) -> int:
        """Run a command in the container, as ``RunningPods`` declares."""
        spec, process = self._spec, self._process
        if spec is None or process is None or not process.init_pid:
            raise StartError("the container does not run")
        words = [PathReplacement(spec.paths).apply(word) for word in argv]
        command = replace(spec, argv=words, log=None, mounts=[], join=process.init_pid)
        joined = ContainerProcess(self._ready_setup.machine.fork_server, command, stdio)
        try:
            await joined.started()
            return await joined.wait()
        finally:
            if not joined.has_ended:
                await joined.kill()

    async def _probe(self) -> None:
        """Run the hook after the start, then the probes as long as the container runs."""
        hook = (self.container.get("lifecycle") or {}).get("postStart")
        if hook and not await self._run_post_start(hook):
            return
        probes = {
            name: self.container[f"{name}Probe"]
            for name in ("startup", "readiness", "liveness")
            if self.container.get(f"{name}Probe")
        }
        startup = probes.get("startup")
        if startup is not None:
            await follow_probe(startup, self, self._handle_startup)
        async with asyncio.TaskGroup() as group:
            if "readiness" in probes:
                readiness = follow_probe(probes["readiness"], self, self._handle_readiness)
                group.create_task(readiness, name=f"readiness {self.view.name}")
            if "liveness" in probes:
                liveness = follow_probe(probes["liveness"], self, self._handle_liveness)
                group.create_task(liveness, name=f"liveness {self.view.name}")

    async def _run_post_start(self, hook: Object) -> bool:
        result = await probe_once(hook, self, timeout_seconds=None)
        if not result.ok:
            message = f"PostStartHook failed: {result.message}"
            self._record(EventReason.FAILED_POST_START_HOOK, message)
            await self._end_process()
        return result.ok

    async def _handle_startup(self, result: ProbeResult, *, counts: bool) -> bool:
        if not counts:
            return False
        if not result.ok:
            await self._restart_for("Startup", result)
            return True
        has_readiness = "readinessProbe" in self.container
        self._set_state(self.view.state, is_started=True, is_ready=not has_readiness)
        return True

    async def _handle_readiness(self, result: ProbeResult, *, counts: bool) -> bool:
        if not result.ok:
            self._record(EventReason.UNHEALTHY, f"Readiness probe failed: {result.message}")
        if counts and result.ok is not self.view.is_ready:
            self._set_state(self.view.state, is_started=True, is_ready=result.ok)
        return False

    async def _handle_liveness(self, result: ProbeResult, *, counts: bool) -> bool:
        if not result.ok and counts:
            await self._restart_for("Liveness", result)
        return False

    async def _restart_for(self, probe: str, result: ProbeResult) -> None:
        """Stop the process; ``run`` sees its end and applies the restart policy."""
        self._record(EventReason.UNHEALTHY, f"{probe} probe failed: {result.message}")
        message = f"Container {self.view.name} failed {probe.lower()} probe, will be restarted"
        self._record(EventReason.KILLING, message)
        await self._end_process()

    async def _end_process(self) -> None:
        grace = self._pod["spec"].get("terminationGracePeriodSeconds", 30)
        if self._process is not None:
            await self._stop_process(self._process, grace, asyncio.Event())


async def fetch_sources(
    client: KubeClient, namespace: str, references: Iterable[Reference]
) -> Sources:
    """Read the objects, all at the same time; None for an object that does not exist."""

    async def fetch(reference: Reference) -> Object | None:
        resource, name = reference
        try:
            return await client.get(resource, namespace, name)
        except NotFoundError:
            return None

    wanted = sorted(references, key=lambda reference: (reference[0].plural, reference[1]))
    found = await asyncio.gather(*map(fetch, wanted))
    return dict(zip(wanted, found, strict=True))
