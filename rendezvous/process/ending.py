"""How a sidecar detects that it is no longer needed; chosen once, at its start.

The kubelet ends a native sidecar. A Pod never completes while any other sidecar runs, so this one
must detect when the other containers have ended. ``choose_ending`` takes these steps:

1. Take the ending that FB_SIDECAR_END names. ``shared`` needs a shared process namespace.
2. With ``auto`` or ``pod``, fetch the own Pod. While the API server is away, wait.
3. If reading it is denied for 10 s: with ``auto``, and the Pod's pause process as PID 1, end by
   processes (``shared``); otherwise refuse to start.
4. With ``auto``, choose by the Pod's spec: a native sidecar; the annotation of the wrapper; a
   shared process namespace; else the status of the Pod.

Invariants: a sidecar that can never detect the end does not start; an ending that is over stays
over; without ``native`` and ``pod``, a sidecar that has seen no container to serve for
FB_TIMEOUT_SEC ends.

Example: a Pod of restartPolicy Never has the containers ``train`` and ``peers`` (``watch``), and no
annotation. ``peers`` watches its Pod. When the status shows ``train`` as terminated, with any exit
code, ``is_pod_done`` is true, the sidecar ends with 0, and the Pod completes.
"""

import os
from typing import Any, Dict, List, Mapping, Optional, Set

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.health import Health
from framework.agent.permission import Permission
from framework.agent.watch import ObjectWatch
from framework.api import constants, images
from rendezvous.core.target import Target
from rendezvous.process.processes import (
    find_processes,
    list_processes,
    read_file,
    read_stat,
)
from rendezvous.process.wrapperfiles import WrapperFiles, WrapperState
from rendezvous.settings.options import (
    END_AUTO,
    END_NATIVE,
    END_POD,
    END_SHARED,
    END_WRAPPER,
    Options,
)

_SETTLED_SECONDS = 10.0
_LOOK_SECONDS = 1.0
# Names of the commands and images of this program.
_NAMES = (
    images.RENDEZVOUS,
    images.IMAGE_PREFIX + images.RENDEZVOUS,
    os.path.basename(images.INSTALLED_AGENT),
)


class EndingError(Exception):
    """This sidecar cannot detect when to end; the message names the remedies."""


class Ending:
    """Never over: the kubelet ends a native sidecar by SIGTERM."""

    name = END_NATIVE
    # Whether it has seen the containers that it serves.
    was_seen = True
    # The log line at the end.
    farewell = "the containers it served are done"

    def is_over(self) -> bool:
        """Return whether the containers that this sidecar serves are done."""
        return False


class WrapperEnding(Ending):
    """The files of the wrapper of the main container show whether its command has ended."""

    name = END_WRAPPER

    def __init__(self, directory: str) -> None:
        """Look for the files in the volume."""
        self._files = WrapperFiles(directory)
        self.was_seen = False

    def is_over(self) -> bool:
        """Return whether the wrapper has run and has ended."""
        state = self._files.read_state()
        self.was_seen = self.was_seen or state is WrapperState.RUNNING
        return state is WrapperState.ENDED


class SharedEnding(Ending):
    """In a shared process namespace, the sidecar sees the processes of the other containers."""

    name = END_SHARED

    def __init__(self, process: str, proc: str = "/proc") -> None:
        """Look for ``process``; if it is "", for any process of another container."""
        self._process = process
        self._proc = proc
        self.was_seen = False

    def is_over(self) -> bool:
        """Return whether the processes were seen and have ended."""
        found = find_processes(self._process, self._proc) if self._process else self._list_others()
        is_over = self.was_seen and not found
        self.was_seen = self.was_seen or bool(found)
        return is_over

    def _list_others(self) -> List[int]:
        pids = set(list_processes(self._proc))
        parents = {pid: self._read_parent(pid) for pid in pids}
        others = []
        for pid in pids - {1, os.getpid()}:
            ancestors: Set[int] = set()
            parent: Optional[int] = pid
            while parent and parent not in ancestors:
                ancestors.add(parent)
                parent = parents.get(parent)
            if os.getpid() not in ancestors:
                others.append(pid)
        return others

    def _read_parent(self, pid: int) -> int:
        try:
            return int(read_stat(pid, self._proc)[1])
        except (ValueError, IndexError):
            return 0


class TimedEnding(Ending):
    """Another ending, which is also over if no container to serve was seen for some time.

    The containers may have ended before this one started, or were never started.
    """

    def __init__(self, ending: Ending, seconds: float, clock: AgentClock) -> None:
        """Give up after ``seconds``; 0: never."""
        self._ending = ending
        self._seconds = seconds
        self._clock = clock
        self._since = clock.monotonic()
        self.name = ending.name

    def is_over(self) -> bool:
        """Return whether the other ending is over, or its containers were never seen."""
        if self._ending.is_over():
            return True
        waited = self._clock.monotonic() - self._since
        if self._ending.was_seen or not 0 < self._seconds <= waited:
            return False
        self.farewell = f"no process to serve was seen for {self._seconds:g} s"
        return True


class PodEnding(Ending):
    """The status of the Pod says which of its containers have terminated."""

    name = END_POD

    def __init__(self, watch: ObjectWatch, container: str, pod: Dict[str, Any]) -> None:
        """Follow ``watch``, starting from ``pod``."""
        self._watch = watch
        self._container = container
        self._pod = pod

    def is_over(self) -> bool:
        """Return whether all other containers have ended and are not restarted."""
        for change in self._watch.poll(0.0):
            if change.body is not None:
                self._pod = change.body
        return is_pod_done(self._pod, self._container)


def is_pod_done(pod: Mapping[str, Any], container: str) -> bool:
    """Return whether all containers but this one have ended and are not restarted."""
    restarts = (pod.get("spec") or {}).get("restartPolicy") or "Always"
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    others = [status for status in statuses if status.get("name") != container]
    if not others or restarts == "Always":
        return False
    for status in others:
        terminated = (status.get("state") or {}).get("terminated")
        if terminated is None or (restarts == "OnFailure" and terminated.get("exitCode") != 0):
            return False
    return True


def choose_ending(options: Options, target: Target, access: Access, clock: AgentClock) -> Ending:
    """Choose the ending. Waits while the API server is unreachable, if it needs the Pod.

    Raises:
        EndingError: No ending applies.
    """
    if options.end not in {END_AUTO, END_POD}:
        if options.end == END_SHARED and os.getpid() == 1:
            raise EndingError(
                "FB_SIDECAR_END=shared, but this container shares its processes with no other: "
                "set shareProcessNamespace: true"
            )
        return _build_ending(options.end, options, clock)
    path = f"/api/v1/namespaces/{target.namespace}/pods"
    watch = ObjectWatch(access, clock, path, target.pod)
    pod = _fetch_pod(watch, clock) if target.pod else None
    if pod is None:
        watch.close()
        return _choose_without_pod(options, target, clock)
    container = find_own_container(pod, options.container)
    end = choose_by_pod(pod, container) if options.end == END_AUTO else options.end
    if end == END_POD:
        return PodEnding(watch, container, pod)
    watch.close()
    return _build_ending(end, options, clock)


def _build_ending(end: str, options: Options, clock: AgentClock) -> Ending:
    if end == END_NATIVE:
        return Ending()
    is_wrapper = end == END_WRAPPER
    ending = WrapperEnding(options.directory) if is_wrapper else SharedEnding(options.process)
    return TimedEnding(ending, options.timeout_seconds, clock)


def _choose_without_pod(options: Options, target: Target, clock: AgentClock) -> Ending:
    """Choose the ending if the Pod cannot be read."""
    if options.end == END_AUTO and os.getpid() != 1 and read_file(1, "comm").strip() == b"pause":
        return _build_ending(END_SHARED, options, clock)
    right = Permission("watch", "", "pods", target.namespace, target.pod)
    raise EndingError(
        "as an ordinary container this sidecar would keep its Pod from ever completing, and it "
        "cannot see whether it is one: set FB_SIDECAR_END=native if it is a native sidecar (an "
        "init container with restartPolicy: Always), =wrapper if the main container runs its "
        "command by `run`, =shared with shareProcessNamespace: true; or give it the "
        + right.describe_rule()
    )


def _fetch_pod(watch: ObjectWatch, clock: AgentClock) -> Optional[Dict[str, Any]]:
    """Fetch the own Pod; None if that is denied."""
    denied_at = None
    while True:
        for change in watch.poll(_LOOK_SECONDS):
            if change.body is not None:
                return change.body
        now = clock.monotonic()
        if watch.health in {Health.FORBIDDEN, Health.UNAUTHORIZED, Health.NOT_FOUND}:
            denied_at = denied_at or now
            if now - denied_at >= _SETTLED_SECONDS:
                return None
        elif watch.health is Health.HEALTHY:
            denied_at = None


def find_own_container(pod: Mapping[str, Any], name: str) -> str:
    """Find the name of the container that runs this program.

    Raises:
        EndingError: No container matches, or several do.
    """
    found = []
    for container in _list_containers(pod, "initContainers", "containers"):
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        names = {os.path.basename(str(word)) for word in words}
        names.add(images.get_image_name(str(container.get("image") or "")))
        if name:
            is_own = container.get("name") == name
        else:
            is_own = "watch" in words and not names.isdisjoint(_NAMES)
        if is_own:
            found.append(str(container.get("name")))
    if len(found) != 1:
        fault = (
            f"there is no container {name!r}" if name else "the name of this container is unknown"
        )
        raise EndingError(f"{fault}: set FB_CONTAINER_NAME to the name of this container")
    return found[0]


def choose_by_pod(pod: Mapping[str, Any], container: str) -> str:
    """Choose the ending by the Pod's spec.

    Raises:
        EndingError: The Pod would never complete.
    """
    for init in _list_containers(pod, "initContainers"):
        if init.get("name") != container:
            continue
        if init.get("restartPolicy") == "Always":
            return END_NATIVE
        raise EndingError(
            f"container {container} is an ordinary init container, and `watch` in it would never "
            "end: give it restartPolicy: Always (the controller of the Go original drops that: "
            "there, use `render` here and `run` in the main container)"
        )
    if len(list(_list_containers(pod, "containers"))) == 1:
        raise EndingError(
            f"container {container} is the only container of its Pod, so it serves no other"
        )
    if constants.WRAPPER_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {}):
        return END_WRAPPER
    spec = pod.get("spec") or {}
    if spec.get("shareProcessNamespace") and os.getpid() != 1:
        return END_SHARED
    if (spec.get("restartPolicy") or "Always") == "Always":
        raise EndingError("restartPolicy: Always lets no Pod complete; set Never or OnFailure")
    return END_POD


def _list_containers(pod: Mapping[str, Any], *fields: str) -> "list[Dict[str, Any]]":
    spec = pod.get("spec") or {}
    return [container for field in fields for container in spec.get(field) or ()]
