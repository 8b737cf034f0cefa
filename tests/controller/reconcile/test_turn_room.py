"""The room for turns of large Frameworks."""

import random

import pytest

from controller.reconcile.turn_room import COPIES, SMALL_BYTES, TurnRoom

MIB = 2**20
LARGE = 3 * MIB
TURN = COPIES * LARGE
LIMIT = 4 * TURN


class Turns:
    """Keys that are queued when they have room."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.queued: list[str] = []
        self.room = TurnRoom(limit, self.queued.append)

    def enter(self, *keys: str, size: int = LARGE) -> list[str]:
        """Return the keys whose turns begin."""
        return [key for key in keys if self.room.enter(key, size)]


def keys(namespace: str, count: int) -> list[str]:
    return [f"{namespace}/{number}" for number in range(count)]


def test_namespace_leaves_half_of_the_room_to_the_next_one() -> None:
    turns = Turns()
    assert turns.enter(*keys("a", 10)) == ["a/0", "a/1"]
    assert turns.enter(*keys("b", 10)) == ["b/0"]
    assert turns.enter(*keys("c", 10)) == ["c/0"]
    assert turns.enter(*keys("d", 1)) == []
    assert turns.queued == []


def test_small_frameworks_do_not_wait() -> None:
    turns = Turns()
    turns.enter(*keys("a", 10))
    small = keys("small", 100)
    assert turns.enter(*small, size=SMALL_BYTES - 1) == small


def test_without_a_limit_nothing_waits() -> None:
    turns = Turns(None)
    assert turns.enter(*keys("a", 100)) == keys("a", 100)


def test_key_that_waited_is_queued_and_has_its_room_until_its_turn_ends() -> None:
    turns = Turns()
    turns.enter(*keys("a", 4))
    turns.room.leave("a/0")
    assert turns.queued == ["a/2"]
    assert turns.enter("a/3", "a/2") == ["a/2"], "a/3 waits, whatever is done first"
    turns.room.leave("a/2")
    assert turns.queued == ["a/2", "a/3"]


def test_room_of_a_key_that_has_no_turn_any_more_is_given_back() -> None:
    turns = Turns()
    turns.enter(*keys("a", 4))
    turns.room.leave("a/0")
    turns.room.leave("a/2")
    assert turns.queued == ["a/2", "a/3"]


def test_end_of_a_turn_without_room_gives_none() -> None:
    turns = Turns()
    turns.enter(*keys("a", 4))
    for key in ("a/3", "b/0", "a/3"):
        turns.room.leave(key)
    assert turns.queued == []


def test_framework_that_became_small_while_it_waited_leaves_the_room_to_others() -> None:
    turns = Turns()
    turns.enter(*keys("a", 4))
    assert turns.enter("a/2", size=1) == ["a/2"]
    turns.room.leave("a/2")
    turns.room.leave("a/0")
    assert turns.queued == ["a/3"]


def test_framework_larger_than_the_room_has_its_turn_alone() -> None:
    turns = Turns()
    turns.enter("a/0")
    assert turns.enter("b/0", size=LIMIT) == []
    assert turns.enter("c/0") == [], "others wait behind it"
    turns.room.leave("a/0")
    assert turns.queued == ["b/0"]
    turns.room.leave("b/0")
    assert turns.queued == ["b/0", "c/0"]


def test_namespaces_take_turns() -> None:
    turns = Turns(TURN)
    turns.enter(*keys("a", 3), *keys("b", 3))
    order = ["a/0"]
    while len(order) < 6:
        turns.room.leave(order[-1])
        order.append(turns.queued[-1])
        assert turns.enter(order[-1])
    assert order == ["a/0", "a/1", "b/0", "a/2", "b/1", "b/2"]


@pytest.mark.parametrize("seed", range(20))
def test_every_key_has_its_turn_and_the_room_is_never_exceeded(seed: int) -> None:
    rng = random.Random(seed)
    turns = Turns()
    sizes = {
        key: rng.randrange(SMALL_BYTES, LIMIT // COPIES // rng.choice([1, 8]))
        for namespace in "abcd"
        for key in keys(namespace, 20)
    }
    waiting, running, done = list(sizes), set[str](), set[str]()
    rng.shuffle(waiting)
    while len(done) < len(sizes):
        waiting += turns.queued
        turns.queued.clear()
        if waiting and (not running or rng.random() < 0.6):
            key = waiting.pop(rng.randrange(len(waiting)))
            if turns.room.enter(key, sizes[key]):
                running.add(key)
        elif running:
            key = rng.choice(sorted(running))
            running.remove(key)
            done.add(key)
            turns.room.leave(key)
        assert COPIES * sum(sizes[key] for key in running) <= LIMIT
    assert done == set(sizes)
