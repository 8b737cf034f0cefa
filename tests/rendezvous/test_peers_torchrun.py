"""torchrun's rendezvous by the Framework, on stores in memory: the members of its rounds."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rendezvous.site import peers
from rendezvous.site.peers import torchrun
from rendezvous.site.peers.torchrun import FrameworkRendezvous, describe_gang
from rendezvous.site.peers.torchrun_store import Stores
from rendezvous.volume.install import SITE_DIRECTORY, install
from tests.support.waiting import HANG_SECONDS


@dataclass
class MemoryStore:
    """What a TCPStore does, for the threads of this process."""

    port: int
    entries: dict[str, bytes] = field(default_factory=dict)
    is_gone: bool = False
    lock: Any = field(default_factory=threading.Lock)

    def set(self, key: str, value: str) -> None:
        with self._open():
            self.entries[key] = value.encode()

    def get(self, key: str) -> bytes:
        with self._open():
            return self.entries[key]

    def add(self, key: str, amount: int) -> int:
        with self._open():
            number = int(self.entries.get(key, b"0")) + amount
            self.entries[key] = str(number).encode()
            return number

    def check(self, keys: list[str]) -> bool:
        with self._open():
            return all(key in self.entries for key in keys)

    def delete_key(self, key: str) -> bool:
        with self._open():
            return self.entries.pop(key, None) is not None

    def set_timeout(self, _timeout: object) -> None:
        """Nothing here blocks."""

    def _open(self) -> Any:
        if self.is_gone:
            raise RuntimeError("connection reset by peer")
        return self.lock


@dataclass
class Prefixed:
    """What a PrefixStore does."""

    name: str
    store: Any

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(key: Any, *arguments: Any) -> Any:
            named = [self._name(k) for k in key] if isinstance(key, list) else self._name(key)
            return getattr(self.store, method)(named, *arguments)

        return call

    def _name(self, key: str) -> str:
        return f"{self.name}/{key}"


class MemoryStores(Stores):
    """Addresses and the stores that are served there."""

    def __init__(self) -> None:
        self.served: dict[tuple[str, int], MemoryStore] = {}
        self._next_port = 40000

    def serve(self, address: str, port: int) -> MemoryStore:
        if not port:
            self._next_port += 1
            port = self._next_port
        assert (address, port) not in self.served, "the port is taken"
        self.served[address, port] = MemoryStore(port)
        return self.served[address, port]

    def connect(self, address: str, port: int) -> MemoryStore:
        store = self.served.get((address, port))
        if store is None or store.is_gone:
            raise RuntimeError("connection refused")
        return store

    def prefix(self, name: str, store: Any) -> Prefixed:
        return Prefixed(name, store)


class World:
    """Pods that share stores; ``show`` makes a generation current in them."""

    def __init__(self, workers: ThreadPoolExecutor) -> None:
        self.stores = MemoryStores()
        self.timeouts: dict[str, float] = {"stop_timeout": 0.5, "settle_timeout": 0.3}
        self.timeouts["join_timeout"] = HANG_SECONDS
        self.shown: dict[str, peers.Roster] = {}
        self.failed: tuple[peers.Failure, ...] = ()
        self.handlers: dict[str, FrameworkRendezvous] = {}
        self._workers = workers
        self._generation = 0

    def show(self, *names: str, to: tuple[str, ...] = (), **changes: Any) -> None:
        """Show the gang of these Pods (``2`` or, its second Pod, ``2b``) to all or to some."""
        self._generation += 1
        members = tuple(build_peer(name, rank) for rank, name in enumerate(names))
        for pod in to or {*names, *self.shown}:
            rank = names.index(pod) if pod in names else -1
            self.shown[pod] = peers.Roster(
                generation=self._generation,
                attempt="0_uid",
                role="worker",
                index=int(pod[0]),
                rank=rank,
                is_member=rank >= 0,
                is_leaving=False,
                is_completing=False,
                peers=members,
            )._replace(**changes)

    def fail(self, name: str) -> None:
        """Let the agents tell of a Pod that failed: the generation stays current."""
        peer = build_peer(name, 0)
        failure = peers.Failure(peer.role, peer.index, peer.address, peer.fingerprint, 137, "x")
        self.failed = (*self.failed, failure)

    def get(self, pod: str) -> FrameworkRendezvous:
        """Get torchrun's handler in a Pod."""
        if pod not in self.handlers:
            self.handlers[pod] = FrameworkRendezvous(
                "run",
                29400,
                self.timeouts,
                self.stores,
                lambda: self.shown[pod],
                read_failures=lambda _: self.failed,
            )
        return self.handlers[pod]

    def join(self, *pods: str) -> dict[str, "Future[Any]"]:
        """Have these Pods wait for the next round, each in a thread."""
        return {pod: self._workers.submit(self.get(pod).next_rendezvous) for pod in pods}

    def train(self, *pods: str) -> dict[str, Any]:
        """Have these Pods start a round, and return what torchrun gets in each."""
        return {pod: joined.result(HANG_SECONDS) for pod, joined in self.join(*pods).items()}

    def start(self, *pods: str) -> dict[str, Any]:
        """Show the gang of these Pods to all, and have them start a round."""
        self.show(*pods)
        return self.train(*pods)

    def await_stop(self, *pods: str) -> None:
        """Train in these Pods until torchrun is to stop the workers, in all of them."""

        def train(pod: str) -> None:
            while not self.get(pod).num_nodes_waiting():
                pass

        for stopped in [self._workers.submit(train, pod) for pod in pods]:
            stopped.result(HANG_SECONDS)

    def look(self, *pods: str) -> dict[str, int]:
        """What torchrun asks now and then, in these Pods at the same time."""
        asked = {pod: self._workers.submit(self.get(pod).num_nodes_waiting) for pod in pods}
        return {pod: answer.result(HANG_SECONDS) for pod, answer in asked.items()}


def build_peer(name: str, rank: int) -> peers.Peer:
    return peers.Peer("worker", int(name[0]), rank, f"10.0.0.{name[0]}", 2222, f"pod-{name}")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    torch = SimpleNamespace(
        RendezvousTimeoutError=TimeoutError,
        RendezvousClosedError=ConnectionError,
        RendezvousStoreInfo=lambda address, port: (address, port),
        RendezvousInfo=lambda store, rank, size, info: SimpleNamespace(
            store=store, rank=rank, size=size, info=info
        ),
    )
    monkeypatch.setattr(torchrun, "_import_rendezvous", lambda: torch)
    with ExitStack() as stack:
        yield World(stack.enter_context(ThreadPoolExecutor(8)))


def test_round_numbers_the_members_densely_and_its_store_is_on_rank_zero(world: World) -> None:
    joined = world.start("0", "2", "5")
    assert [joined[pod].rank for pod in ("0", "2", "5")] == [0, 1, 2]
    assert {each.size for each in joined.values()} == {3}
    ((address, port),) = {each.info for each in joined.values()}
    assert address == "10.0.0.0"
    assert (address, port) in world.stores.served
    assert world.look("0", "2", "5") == {"0": 0, "2": 0, "5": 0}


def test_round_waits_for_all_members_and_for_no_other(world: World) -> None:
    world.show("0", "1")
    first = world.join("0")
    with pytest.raises(TimeoutError):
        first["0"].result(0.2)
    assert world.train("1")["1"].size == first["0"].result(HANG_SECONDS).size == 2


def test_member_that_never_comes_ends_the_wait_of_the_others(world: World) -> None:
    world.timeouts["join_timeout"] = 0.1
    world.show("0", "1")
    with pytest.raises(TimeoutError, match="is the gang complete"):
        world.join("0")["0"].result(HANG_SECONDS)


def test_gang_that_grows_trains_on_until_the_new_member_has_arrived(world: World) -> None:
    first = world.start("0", "1")
    world.show("0", "1", "2")
    assert world.look("0", "1") == {"0": 0, "1": 0}
    newcomer = world.join("2")
    world.await_stop("0", "1")
    joined = world.train("0", "1")
    assert newcomer["2"].result(HANG_SECONDS).rank == 2
    assert {each.size for each in joined.values()} == {3}
    # A store of its own for every round: none holds what the workers before have left.
    assert joined["0"].info != first["0"].info


def test_member_that_is_scaled_away_is_no_failure(world: World) -> None:
    world.start("0", "1", "2")
    world.show("0", "1")
    # All three stop their workers, none before the others know: no connection breaks.
    world.await_stop("0", "1", "2")
    assert {each.size for each in world.train("0", "1").values()} == {2}


def test_member_that_leaves_ends_with_success(world: World) -> None:
    world.start("0", "1")
    world.show("0")
    world.show("0", to=("1",), is_leaving=True)
    world.await_stop("0", "1")
    assert isinstance(world.join("1")["1"].exception(HANG_SECONDS), SystemExit)
    assert world.train("0")["0"].size == 1


def test_change_that_one_member_has_seen_stops_the_workers_of_all(world: World) -> None:
    world.start("0", "1", "2")
    world.show("0", "1", to=("1",))
    world.await_stop("0", "1", "2")


def test_lost_member_does_not_keep_the_others_from_stopping(world: World) -> None:
    world.start("0", "1", "2")
    world.show("0", "1")
    assert world.look("0", "1") == {"0": 1, "1": 1}


def test_failed_worker_restarts_the_round_of_all(world: World) -> None:
    world.start("0", "1")
    failed = world.join("1")
    world.await_stop("0")
    assert world.train("0")["0"].size == failed["1"].result(HANG_SECONDS).size == 2


def test_member_whose_torchrun_is_started_anew_is_taken_in(world: World) -> None:
    """Its container was: the Pod is the same, and the others may wait long for its processes."""
    world.start("0", "1")
    del world.handlers["1"]
    joined = world.join("1")
    world.await_stop("0")
    joined.update(world.join("0"))
    assert {each.result(HANG_SECONDS).size for each in joined.values()} == {2}
    assert world.look("0", "1") == {"0": 0, "1": 0}


def test_replaced_member_is_another_one(world: World) -> None:
    world.start("0", "1")
    world.show("0", "1b")
    assert world.look("0") == {"0": 1}
    joined = world.train("0", "1b")
    assert (joined["1b"].rank, joined["1b"].size) == (1, 2)


def test_replaced_rank_zero_takes_the_store_with_it(world: World) -> None:
    world.start("0", "1")
    del world.stores.served["10.0.0.0", 29400]
    current = world.get("1")._round
    assert current is not None
    current.control.store.is_gone = True
    assert world.look("1") == {"1": 0}, "while the gang is the same it may only be slow"
    world.show("0b", "1")
    assert world.look("1") == {"1": 1}
    assert {each.size for each in world.train("0b", "1").values()} == {2}


def test_survivors_stop_when_they_are_told_of_a_failure_and_wait_for_the_next_pod(
    world: World,
) -> None:
    world.timeouts["stop_timeout"] = float(HANG_SECONDS)
    world.start("0", "1", "2")
    world.fail("2")
    # None waits for the consent of the Pod that failed.
    world.await_stop("0", "1")
    joined = world.join("0", "1")
    with pytest.raises(TimeoutError):
        joined["0"].result(0.1)
    world.show("0", "1", "2b")
    joined |= world.join("2b")
    assert {each.result(HANG_SECONDS).size for each in joined.values()} == {3}
    assert world.look("0", "1", "2b") == {"0": 0, "1": 0, "2b": 0}, "an old failure is none"


def test_survivors_ask_nothing_of_a_rank_zero_that_failed(world: World) -> None:
    world.start("0", "1")
    current = world.get("1")._round
    assert current is not None
    current.control.store.store.lock = None  # a request would raise another error
    world.fail("0")
    assert world.look("1") == {"1": 1}
    del world.stores.served["10.0.0.0", 29400]
    joined = world.join("1")
    world.show("0b", "1")
    joined |= world.join("0b")
    assert {each.result(HANG_SECONDS).size for each in joined.values()} == {2}


def test_views_that_differ_for_a_moment_are_waited_out(world: World) -> None:
    world.timeouts["settle_timeout"] = HANG_SECONDS
    world.show("0", "1")
    world.show("0", "1", "2", to=("1", "2"))
    joined = world.join("0", "1", "2")
    with pytest.raises(TimeoutError):
        joined["1"].result(0.1)
    world.show("0", "1", "2")
    assert {each.result(HANG_SECONDS).size for each in joined.values()} == {3}
    assert world.look("0", "1", "2") == {"0": 0, "1": 0, "2": 0}


def test_member_with_an_old_view_does_not_end_the_round(world: World) -> None:
    world.show("0", "1")
    world.show("0", "1", "2", to=("0", "2"))
    # Rank 0 starts without the agreement of 1, after a while.
    assert {each.size for each in world.train("0", "1", "2").values()} == {3}
    assert world.look("0", "1", "2") == {"0": 0, "1": 0, "2": 0}


def test_training_that_ends_takes_no_member_in(world: World) -> None:
    joined = world.start("0")
    joined["0"].store.set("torchelastic/agent/terminal_state/num_members", "1")
    world.show("0", "1")
    newcomer = world.join("1")
    assert world.look("0") == {"0": 0}
    world.show("1", has_succeeded=True)
    assert isinstance(newcomer["1"].exception(HANG_SECONDS), SystemExit)


def test_member_that_fails_when_the_others_have_succeeded_has_failed(world: World) -> None:
    world.start("0", "1")
    world.show("1", has_succeeded=True)
    assert isinstance(world.join("1")["1"].exception(HANG_SECONDS), ConnectionError)


def test_store_that_is_lost_is_asked_no_more(world: World) -> None:
    world.start("0", "1")
    store = world.stores.served["10.0.0.0", 29400]
    store.is_gone = True
    assert world.look("1") == {"1": 0}
    store.is_gone = False
    store.add("framework/0_uid/run/want/1", 1)
    assert world.look("1") == {"1": 0}
    world.show("0", "1b")
    assert world.look("1") == {"1": 1}


def test_attempt_that_completes_restarts_nothing(world: World) -> None:
    world.start("0", "1")
    world.show("0", is_completing=True)
    assert world.look("0", "1") == {"0": 0, "1": 0}


def test_gangs_are_the_same_by_their_pods_and_addresses(world: World) -> None:
    world.show("0", "1")
    before = world.shown["0"]
    world.show("0", "1")
    assert describe_gang(world.shown["0"]) == describe_gang(before)
    moved = before.peers[1]._replace(address="10.0.0.9")
    assert describe_gang(before._replace(peers=(before.peers[0], moved))) != describe_gang(before)
    assert describe_gang(before._replace(attempt="1_uid")) != describe_gang(before)


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("", 29400), ("10.0.0.1", 29400), ("10.0.0.1:7000", 7000), ("[fd00::1]:7000", 7000)],
)
def test_only_the_port_of_the_endpoint_counts(endpoint: str, port: int) -> None:
    config = {"join_timeout": 5}
    parameters = SimpleNamespace(endpoint=endpoint, run_id="r", get_as_int=config.get)
    handler = torchrun.get_handler()(parameters)
    assert (handler._port, handler._join_seconds) == (port, 5)
    assert (handler.get_backend(), handler.get_run_id()) == ("framework", "r")
    assert handler.use_agent_store
    assert not handler.is_closed()


def test_site_folder_announces_the_handler_to_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(str(tmp_path))
    site = tmp_path / SITE_DIRECTORY
    (found,) = distributions(path=[str(site)])
    (entry,) = found.entry_points
    assert (entry.group, entry.name) == ("torchrun.handlers", "framework")
    assert found.metadata["Name"] == "frameworkbarrier-peers"
    monkeypatch.syspath_prepend(str(site))
    parameters = SimpleNamespace(endpoint="", run_id="r", get_as_int=lambda _name: None)
    try:
        assert entry.load()()(parameters).get_backend() == "framework"
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "peers"]:
            del sys.modules[name]
