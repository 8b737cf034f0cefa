"""A gang with a sidecar on one member's volume."""

from pathlib import Path

from framework.api.roster import Roster
from rendezvous.volume.writer import NOTIFIED_FILE
from tests.rendezvous.agents import (
    AgentProcess,
    Publisher,
    read_changes,
)
from tests.rendezvous.gangs import build_gang
from tests.support.servers.controlplane import Access
from tests.support.waiting import wait_until

NATIVE = ("watch", "--sidecar-end", "native")


class Gang:
    """A gang, one member's volume, and what it was told."""

    def __init__(self, api: Access, publisher: Publisher, volume: Path) -> None:
        self.publisher = publisher
        self.volume = volume
        self.told = volume.with_name("told")
        self.env = publisher.build_env(api.url, api.token, volume, "worker", 0)
        self.env["FB_DEBOUNCE_SEC"] = "0"
        self.env["FB_NOTIFY_COMMAND"] = f"cat >>{self.told}"

    def publish(self, count: int, generation: int) -> Roster:
        return self.publisher.publish(build_gang(count)._replace(generation=generation))

    def read_current(self) -> int:
        try:
            return int((self.volume / "current").readlink().name.removeprefix("gen-"))
        except FileNotFoundError:
            return 0

    def wait_for_generation(self, number: int) -> None:
        wait_until(lambda: self.read_current() == number)

    def wait_until_told(self, count: int) -> None:
        wait_until(lambda: len(read_changes(self.told)) == count)
        last = read_changes(self.told)[-1]["generation"]
        # An agent killed before it has noted this tells the same once more.
        note = self.volume / NOTIFIED_FILE
        wait_until(lambda: note.exists() and int(note.read_text().split()[0]) == last)

    def count_hosts(self) -> int:
        return len((self.volume / "current" / "hosts.horovod").read_text().splitlines())


def wait_for_text(agent: AgentProcess, start: str) -> str:
    agent.wait_for(start)
    return agent.text.partition(start)[2].split()[0]
