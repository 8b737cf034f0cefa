"""Who may send next: fair between Frameworks, careful after errors."""

from controller.core.actions import DeleteObject, ObjectKind
from controller.lanes import MAX_WINDOW, Lanes


def actions(count: int, prefix: str = "p") -> list[DeleteObject]:
    return [DeleteObject(ObjectKind.POD, f"{prefix}{n}", f"uid{n}", "why") for n in range(count)]


def take_all(lanes: Lanes) -> list[tuple[str, str]]:
    taken = []
    while (item := lanes.take()) is not None:
        taken.append((item[0], item[1].key.name))
    return taken


def test_lanes_take_turns() -> None:
    lanes = Lanes(100)
    lanes.replace("a", actions(3))
    lanes.replace("b", actions(2))
    assert [key for key, _ in take_all(lanes)] == ["a", "b", "a", "b", "a"]


def test_one_great_gang_does_not_hold_up_a_small_one() -> None:
    lanes = Lanes(4)
    lanes.replace("great", actions(1000))
    lanes.replace("small", actions(1))
    assert ("small", "p0") in take_all(lanes)


def test_small_gangs_go_together_when_there_are_too_many_lanes_to_serve_at_once() -> None:
    lanes = Lanes(3)
    for name in "abcd":
        lanes.replace(name, actions(12))
    sent = []
    for _ in range(24):
        key, _ = lanes.take() or ("", None)
        lanes.finish(key, is_failed=False)
        sent.append(key)
    assert sent == ["a"] * 8 + ["b"] * 8 + ["c"] * 8


def test_no_more_run_at_once_than_allowed() -> None:
    lanes = Lanes(3)
    lanes.replace("a", actions(5))
    assert len(take_all(lanes)) == 3
    lanes.finish("a", is_failed=False)
    assert (lanes.running, len(take_all(lanes))) == (2, 1)


def test_newest_decision_replaces_what_is_not_sent() -> None:
    lanes = Lanes(1)
    lanes.replace("a", actions(900))
    lanes.take()
    lanes.replace("a", actions(1, "other"))
    lanes.finish("a", is_failed=False)
    assert take_all(lanes) == [("a", "other0")]


def test_same_action_twice_is_sent_once() -> None:
    lanes = Lanes(10)
    lanes.replace("a", [*actions(2), *actions(2)])
    assert len(take_all(lanes)) == 2


def test_lane_starts_slowly_after_an_error_and_doubles_with_each_success() -> None:
    lanes = Lanes(1000)
    lanes.replace("a", actions(500))
    assert len(take_all(lanes)) == MAX_WINDOW
    for _ in range(MAX_WINDOW):
        lanes.finish("a", is_failed=True)
    running = 0
    for window in (1, 2, 4, 8):
        running += len(take_all(lanes))
        assert running == window
        lanes.finish("a", is_failed=False)
        running -= 1


def test_error_of_one_framework_slows_no_other() -> None:
    lanes = Lanes(1000)
    lanes.replace("bad", actions(10))
    lanes.take()
    lanes.finish("bad", is_failed=True)
    lanes.replace("good", actions(10))
    assert [key for key, _ in take_all(lanes)].count("good") == 10


def test_cleared_lanes_send_nothing_more_and_tell_who_lost() -> None:
    lanes = Lanes(1)
    lanes.replace("a", actions(2))
    lanes.take()
    lanes.replace("b", [])
    assert lanes.clear() == ["a"]
    lanes.finish("a", is_failed=False)
    assert lanes.take() is None
    assert lanes.running == 0


def test_idle_lanes_are_forgotten() -> None:
    lanes = Lanes(10)
    lanes.replace("a", actions(1))
    lanes.take()
    lanes.finish("a", is_failed=False)
    assert not lanes._lanes


def test_forget_drops_a_lane_whatever_its_errors_taught() -> None:
    lanes = Lanes(8)
    lanes.replace("a", actions(1))
    assert len(take_all(lanes)) == 1
    lanes.finish("a", is_failed=True)
    lanes.forget("a")
    lanes.replace("a", actions(3))
    assert len(take_all(lanes)) == 3
