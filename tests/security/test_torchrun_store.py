"""The hand-over in torchrun's store: values that were not signed with the gang key are refused."""

import json
from typing import Any

import pytest

from rendezvous.site import peers
from rendezvous.site.peers.torchrun import FrameworkRendezvous, name_member
from rendezvous.site.peers.torchrun_store import Control, ForgedError
from tests.rendezvous.test_peers_torchrun import MemoryStore, World, world
from tests.support.waiting import HANG_SECONDS, wait_until

__all__ = ["world"]

KEY = b"ab" * 32
PREFIX = "framework/0_uid/run/"


def wait_for_change(store: MemoryStore, name: str, old: bytes) -> bytes:
    """Wait until a store has another value than the old one."""
    wait_until(lambda: store.entries.get(name, b"") not in {b"", old})
    return store.entries[name]


class KeyedWorld:
    """A world whose Pods have the gang key, except those in ``keys``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys: dict[str, bytes | None] = {}

    def get(self, pod: str) -> FrameworkRendezvous:
        world = self.world
        if pod not in world.handlers:
            world.handlers[pod] = FrameworkRendezvous(
                "run",
                29400,
                world.timeouts,
                world.stores,
                lambda: world.shown[pod],
                lambda _attempt: self.keys.get(pod, KEY),
            )
        return world.handlers[pod]

    def find_store(self) -> MemoryStore:
        """Find the store of rank 0, as any client of its port does."""
        served = self.world.stores.served
        return wait_until(lambda: served.get(("10.0.0.0", 29400)))  # type: ignore[return-value]  # not None at its end


@pytest.fixture
def keyed(world: World) -> KeyedWorld:
    found = KeyedWorld(world)
    # Only a test that waits for the end of this time sets it to a short one.
    world.timeouts["join_timeout"] = HANG_SECONDS
    world.get = found.get  # type: ignore[method-assign]  # handlers with a key
    return found


def test_members_with_the_key_train_and_stop_together(keyed: KeyedWorld) -> None:
    world = keyed.world
    world.show("0", "1", "2")
    assert [round_.rank for round_ in world.train("0", "1", "2").values()] == [0, 1, 2]
    world.show("0", "2")
    world.await_stop("0", "2")
    assert {round_.size for round_ in world.train("0", "2").values()} == {2}


@pytest.mark.parametrize("key", [None, b"cd" * 32])
def test_member_without_the_key_is_given_no_place(keyed: KeyedWorld, key: bytes | None) -> None:
    world = keyed.world
    keyed.keys["1"] = key
    world.timeouts["join_timeout"] = 1.0
    world.show("0", "1")
    joined = world.join("0", "1")
    for pod in ("0", "1"):
        with pytest.raises(TimeoutError):
            joined[pod].result(HANG_SECONDS)
    assert not any("assigned/" in name for name in keyed.find_store().entries)


def test_member_takes_no_forged_place(keyed: KeyedWorld) -> None:
    """An attacker reads the token from the store and names a master of its own."""
    world = keyed.world
    world.show("0", "1", "2")
    place = {"round": 1, "size": 2, "rank": 1, "gang": "", "address": "10.6.6.6", "port": 1}
    joined = world.join("0", "1")
    store = keyed.find_store()
    arrived = f"{PREFIX}arrived/{name_member(world.shown['1'].ranked[1])}"
    for forged in (json.dumps(place), json.dumps({"value": json.dumps(place), "proof": "0"})):
        old = wait_for_change(store, arrived, b"")
        token = json.loads(json.loads(old)["value"])["token"]
        store.set(f"{PREFIX}assigned/{token}", forged)
        wait_for_change(store, arrived, old)  # the member arrives again, with another token
    joined.update(world.join("2"))
    assert {each.result(HANG_SECONDS).info[0] for each in joined.values()} == {"10.0.0.0"}


def test_forged_wish_ends_no_round_and_a_signed_one_does(keyed: KeyedWorld) -> None:
    world = keyed.world
    world.show("0", "1")
    world.train("0", "1")
    store = keyed.find_store()
    for forged in ("1", '{"value": "1", "proof": "00"}', "[", "[" * 100_000, '"x"'):
        store.set(PREFIX + "want/1", forged)
        assert world.look("0", "1") == {"0": 0, "1": 0}
    world.show("0")
    world.await_stop("0")
    assert world.train("0")["0"].size == 1


def build_control(store: Any, number: str, key: bytes = KEY, run: str = "run") -> Control:
    control = Control(store, key, "0_uid", run)
    control.open(number)
    return control


def test_value_is_valid_only_under_its_name_in_its_store_and_run() -> None:
    """A signed value that was read elsewhere cannot be written again."""
    store = MemoryStore(1)
    control = build_control(store, "7")
    control.write("arrived/a", {"token": "t"})
    assert control.read("arrived/a") == {"token": "t"}
    signed = store.entries["arrived/a"].decode()
    store.set("arrived/b", signed)
    with pytest.raises(ForgedError):
        control.read("arrived/b")
    for other in (
        build_control(MemoryStore(2), "8"),
        build_control(MemoryStore(2), "7", b"cd" * 32),
        build_control(MemoryStore(2), "7", run="other"),
    ):
        other.store.set("arrived/a", signed)
        with pytest.raises(ForgedError):
            other.read("arrived/a")


def test_member_waits_until_rank_0_has_written_its_number() -> None:
    store = MemoryStore(1)
    with pytest.raises(RuntimeError, match="rank 0 has not begun"):
        Control(store, KEY, "0_uid", "run").join()


def test_values_without_a_key_are_not_signed() -> None:
    store = MemoryStore(1)
    control = Control(store, None, "0_uid", "run")
    control.open("7")
    control.write("members/1", ["a"])
    assert store.entries == {"members/1": b'["a"]'}
    assert control.read("members/1") == ["a"]


def test_key_that_cannot_be_used_ends_torchrun(keyed: KeyedWorld) -> None:
    world = keyed.world

    def read_key(_attempt: str) -> bytes:
        raise peers.GangKeyError("the gang key cannot be read")

    world.show("0")
    handler = FrameworkRendezvous(
        "run", 29400, world.timeouts, world.stores, lambda: world.shown["0"], read_key
    )
    with pytest.raises(peers.GangKeyError):
        handler.next_rendezvous()
