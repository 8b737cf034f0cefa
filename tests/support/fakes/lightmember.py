"""Members of a gang that restarts in place, without a process each: for gangs of 100 to 1,000.

A light member decides by the agents' own code (``rendezvous.core.recovery``). It watches the roster
on the API server, and comes to the start barrier on the network, by the protocol of the agents
(``peers.barriers.protocol``). Its process is only a phase in memory, so it ends at once. The agent
of rank 0 serves the start barrier, so it must be a real agent.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import Any, NamedTuple

from framework.api import constants
from framework.api.epochreports import ProcessEnd, encode_end
from framework.api.naming import build_configmap_name
from framework.api.roster import Roster, decode_stored_roster, fingerprint_uid
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import CONFIGMAPS, Object
from rendezvous.core.recovery import (
    Action,
    BarrierKey,
    EndProcess,
    Event,
    Gather,
    Phase,
    ProcessEnded,
    ProcessGone,
    RecoveryMemory,
    Released,
    RosterSeen,
    StartProcess,
    WriteReport,
    step,
)
from rendezvous.site.peers.barriers.protocol import (
    GO,
    MEMBER,
    RANK_0,
    compute_side_proof,
    decode_line,
    encode_line,
)
from rendezvous.site.peers.gang_key import draw_nonce, is_proof
from tests.support.fakes.kubelet import FakePod

KILLED = 137
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_WATCH_SECONDS = 3600

Report = Callable[[FakePod, str], Awaitable[None]]


class Site(NamedTuple):
    """The shared values of the light members of a gang."""

    client: KubeClient
    """Watches the roster."""
    framework: str
    """Name of the Framework."""
    role: str
    """The only role of the Framework."""
    port: int
    """Port of the start barrier."""
    gang_key: bytes
    """The gang key, which proves to members that they are of one gang."""
    report: Report
    """Writes the report of a failed process into the annotation of its Pod."""


class LightMember:
    """One member; ``run`` it in a task."""

    def __init__(self, site: Site, pod: FakePod, index: int) -> None:
        self.pod = pod
        self._site = site
        self._index = index
        self._memory = RecoveryMemory()
        self._roster: Roster | None = None
        self._gathering: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        # The epochs of its started processes, with the times in seconds of the loop.
        self.starts: list[tuple[int, float]] = []
        # The time at which it first saw an epoch.
        self.seen: dict[int, float] = {}

    @property
    def epoch(self) -> int | None:
        """The epoch of its process; None if it does not run."""
        return self._memory.running.epoch if self._memory.phase is Phase.RUNNING else None

    async def run(self) -> None:
        """Follow the roster until this is cancelled."""
        try:
            while True:
                with suppress(KubeError):
                    await self._watch()
                await asyncio.sleep(_FIRST_PAUSE_SECONDS)
        finally:
            for task in (self._gathering, self._reporting):
                if task is not None:
                    task.cancel()

    def kill_process(self) -> None:
        """Let the process be killed."""
        self._end(KILLED)

    async def _watch(self) -> None:
        name = build_configmap_name(self._site.framework)
        events = self._site.client.watch(
            CONFIGMAPS,
            self.pod.namespace,
            resource_version="0",
            field_selector=f"metadata.name={name}",
            timeout_seconds=_WATCH_SECONDS,
            read_deadline_seconds=_WATCH_SECONDS,
        )
        async with aclosing(events):
            async for event, body in events:
                if event in {"ADDED", "MODIFIED"}:
                    self._observe(body)

    def _observe(self, configmap: Object) -> None:
        stored = (configmap.get("binaryData") or {}).get(constants.ROSTER_KEY)
        self._roster = roster = None if stored is None else _decode(stored)
        if roster is None or roster.recovery is None:
            return
        target = BarrierKey(roster.recovery.since, roster.recovery.epoch)
        member = roster.find_member(self._site.role, self._index)
        seen = RosterSeen(
            target,
            is_refused=fingerprint_uid(self.pod.uid) in roster.recovery.refused,
            is_ready=roster.complete,
            is_member=member is not None,
            has_failed_peer=bool(roster.failed),
            is_complete=roster.complete,
        )
        self._take(seen)

    def _take(self, event: Event) -> None:
        now = asyncio.get_running_loop().time()
        if isinstance(event, RosterSeen):
            self.seen.setdefault(event.barrier.epoch, now)
        actions, self._memory = step(self._memory, event, now)
        for action in actions:
            self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, EndProcess):
            self._end(KILLED)
        elif isinstance(action, WriteReport):
            text = encode_end(ProcessEnd(action.epoch, action.code))
            self._reporting = asyncio.create_task(_await(self._site.report(self.pod, text)))
        elif isinstance(action, Gather):
            if self._gathering is not None:
                self._gathering.cancel()
            self._gathering = asyncio.create_task(self._gather(action.barrier))
        elif isinstance(action, StartProcess):
            self.starts.append((action.epoch, asyncio.get_running_loop().time()))
        else:
            raise TypeError(f"{self.pod.name}: {action}")

    def _end(self, code: int) -> None:
        self._take(ProcessEnded(code))
        self._take(ProcessGone())

    async def _gather(self, target: BarrierKey) -> None:
        """Wait at the start barrier; connect again where the connection fails."""
        pause, token = _FIRST_PAUSE_SECONDS, os.urandom(12).hex()
        while not await self._is_released(target, token):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self._take(Released(target))

    async def _is_released(self, target: BarrierKey, token: str) -> bool:
        roster = self._roster
        server = None if roster is None else roster.find_role(self._site.role)
        if roster is None or server is None:
            return False
        try:
            reader, writer = await asyncio.open_connection(
                server.members[0].addresses[0], self._site.port, local_addr=(self.pod.address, 0)
            )
        except OSError:
            return False
        try:
            await self._prove(reader, writer, roster.instance_uid)
            arrival = {
                "name": f"start {target.generation} {target.epoch}",
                "token": token,
                "attempt": roster.instance_uid,
                "role": self._site.role,
                "index": self._index,
                "pod": fingerprint_uid(self.pod.uid),
            }
            writer.write(encode_line(arrival))
            return await reader.readline() == GO
        except (OSError, ValueError):
            return False  # it hung up
        finally:
            writer.close()

    async def _prove(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, attempt: str
    ) -> None:
        first: dict[str, Any] = decode_line(await reader.readline())
        key, nonces = self._site.gang_key, (attempt, str(first["nonce"]), draw_nonce())
        proof = compute_side_proof(key, MEMBER, nonces)
        writer.write(encode_line({"nonce": nonces[2], "proof": proof}))
        answer: dict[str, Any] = decode_line(await reader.readline())
        assert is_proof(answer["proof"], compute_side_proof(key, RANK_0, nonces))


@lru_cache(maxsize=4)
def _decode(stored: str) -> Roster:
    """Decode a roster once for all members, which have the same text."""
    return decode_stored_roster(stored)


async def _await(report: Awaitable[None]) -> None:
    await report
