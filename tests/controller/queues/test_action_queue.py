"""Which action is sent next: fair between namespaces and Frameworks, slow after errors."""

from controller.core.actions import DeleteObject, ObjectKind
from controller.queues.action_queue import MAX_WINDOW, ActionQueue
from tests.support.measuring.cost import assert_costs_at_most


def actions(count: int, prefix: str = "p") -> list[DeleteObject]:
    return [DeleteObject(ObjectKind.POD, f"{prefix}{n}", f"uid{n}", "why") for n in range(count)]


def take_all(queue: ActionQueue) -> list[tuple[str, str]]:
    taken = []
    while (item := queue.take()) is not None:
        taken.append((item[0], item[1].key.name))
    return taken


def test_flows_take_turns() -> None:
    queue = ActionQueue(100)
    queue.replace("a", actions(3))
    queue.replace("b", actions(2))
    assert [key for key, _ in take_all(queue)] == ["a", "b", "a", "b", "a"]


def test_one_great_gang_does_not_hold_up_a_small_one() -> None:
    queue = ActionQueue(4)
    queue.replace("great", actions(1000))
    queue.replace("small", actions(1))
    assert ("small", "p0") in take_all(queue)


def test_small_gangs_go_together_when_there_are_too_many_flows_to_serve_at_once() -> None:
    queue = ActionQueue(3)
    for name in "abcd":
        queue.replace(name, actions(12))
    sent = []
    for _ in range(24):
        key, _ = queue.take() or ("", None)
        queue.finish(key, is_failed=False)
        sent.append(key)
    assert sent == ["a"] * 8 + ["b"] * 8 + ["c"] * 8


def test_no_more_run_at_once_than_allowed() -> None:
    queue = ActionQueue(3)
    queue.replace("a", actions(5))
    assert len(take_all(queue)) == 3
    queue.finish("a", is_failed=False)
    assert (queue.running, len(take_all(queue))) == (2, 1)


def test_newest_decision_replaces_what_is_not_sent() -> None:
    queue = ActionQueue(1)
    queue.replace("a", actions(900))
    queue.take()
    queue.replace("a", actions(1, "other"))
    queue.finish("a", is_failed=False)
    assert take_all(queue) == [("a", "other0")]


def test_same_action_twice_is_sent_once() -> None:
    queue = ActionQueue(10)
    queue.replace("a", [*actions(2), *actions(2)])
    assert len(take_all(queue)) == 2


def test_flow_starts_slowly_after_an_error_and_doubles_with_each_success() -> None:
    queue = ActionQueue(1000)
    queue.replace("a", actions(500))
    assert len(take_all(queue)) == MAX_WINDOW
    for _ in range(MAX_WINDOW):
        queue.finish("a", is_failed=True)
    running = 0
    for window in (1, 2, 4, 8):
        running += len(take_all(queue))
        assert running == window
        queue.finish("a", is_failed=False)
        running -= 1


def test_error_of_one_framework_slows_no_other() -> None:
    queue = ActionQueue(1000)
    queue.replace("bad", actions(10))
    queue.take()
    queue.finish("bad", is_failed=True)
    queue.replace("good", actions(10))
    assert [key for key, _ in take_all(queue)].count("good") == 10


def test_namespace_whose_requests_fail_has_one_at_a_time_however_many_frameworks_it_has() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    for number in range(100):
        queue.replace(f"bad/{number}", actions(1))
    for _ in range(5):
        key, _ = queue.take() or ("", None)
        queue.finish(key, is_failed=True)
    queue.replace("good/x", actions(40))
    namespaces = [key.partition("/")[0] for key, _ in take_all(queue)]
    assert (namespaces.count("bad"), namespaces.count("good")) == (1, 32)
    assert (queue.get_window("bad"), queue.get_window("good")) == (1, 32)


def test_namespace_goes_on_fast_when_its_requests_succeed_again() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    for number in range(100):
        queue.replace(f"a/{number}", actions(1))
    for is_failed in [*[True] * 6, *[False] * 5]:
        key, _ = queue.take() or ("", None)
        queue.finish(key, is_failed=is_failed)
    assert len(take_all(queue)) == 32


def test_reads_that_succeed_between_refused_creates_speed_nothing_up() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    for _ in range(6):
        queue.replace("a/x", actions(1))
        queue.take()
        queue.finish("a/x", is_failed=True)
        queue.replace("a/x", actions(1))
        queue.take()
        queue.finish("a/x", is_failed=False, is_read=True)
    queue.replace("a/x", actions(9))
    assert (queue.get_window("a"), len(take_all(queue))) == (1, 1)


def test_reads_after_an_error_of_a_read_become_faster() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    queue.replace("a/x", actions(100))
    for is_failed in [*[True] * 6, *[False] * 5]:
        queue.take()
        queue.finish("a/x", is_failed=is_failed, is_read=True)
    assert len(take_all(queue)) == 32


def test_only_one_read_after_each_refused_create_does_not_count() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    queue.replace("a/x", actions(100))
    for _ in range(3):
        queue.take()
        queue.finish("a/x", is_failed=True)
    windows = []
    for _ in range(6):
        queue.take()
        queue.finish("a/x", is_failed=False, is_read=True)
        windows.append(queue.get_window("a"))
    assert windows == [4, 4, 4, 8, 16, 32]
    assert len(take_all(queue)) == 8


def test_reads_become_faster_however_many_writes_have_failed() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    queue.replace("a/x", actions(1000))
    for _ in range(500):
        queue.take()
        queue.finish("a/x", is_failed=True)
    for _ in range(100):
        queue.take()
        queue.finish("a/x", is_failed=False, is_read=True)
    assert len(take_all(queue)) == 32


def test_one_error_among_many_requests_of_a_namespace_slows_it_for_one_request() -> None:
    queue = ActionQueue(64, namespace_limit=32)
    for number in range(100):
        queue.replace(f"a/{number}", actions(1))
    sent = take_all(queue)
    queue.finish(sent[0][0], is_failed=True)
    assert queue.get_window("a") == 16
    queue.finish(sent[1][0], is_failed=False)
    assert queue.get_window("a") == 32


def test_namespace_that_is_gone_is_forgotten_whatever_its_errors_taught() -> None:
    queue = ActionQueue(8)
    queue.replace("a/x", actions(1))
    take_all(queue)
    queue.finish("a/x", is_failed=True)
    queue.forget("a/x")
    assert queue.is_empty


def test_cleared_queue_sends_nothing_more_and_names_the_keys_that_lost_actions() -> None:
    queue = ActionQueue(1)
    queue.replace("a", actions(2))
    queue.take()
    queue.replace("b", [])
    assert queue.clear() == ["a"]
    queue.finish("a", is_failed=False)
    assert queue.take() is None
    assert queue.running == 0


def test_idle_flows_are_forgotten() -> None:
    queue = ActionQueue(10)
    queue.replace("a", actions(1))
    queue.take()
    queue.finish("a", is_failed=False)
    assert queue.is_empty


def test_forget_drops_a_flow_whatever_its_errors_taught() -> None:
    queue = ActionQueue(8)
    queue.replace("a", actions(1))
    assert len(take_all(queue)) == 1
    queue.finish("a", is_failed=True)
    queue.forget("a")
    queue.replace("a", actions(3))
    assert len(take_all(queue)) == 3


def test_namespaces_take_turns_however_many_frameworks_one_has() -> None:
    queue = ActionQueue(100)
    for number in range(50):
        queue.replace(f"hot/{number}", actions(10))
    queue.replace("calm/x", actions(2))
    assert [key for key, _ in take_all(queue)].index("calm/x") <= 1


def test_a_namespace_whose_requests_hang_leaves_slots_to_others() -> None:
    queue = ActionQueue(8, namespace_limit=6)
    for number in range(50):
        queue.replace(f"hot/{number}", actions(10))
    assert len(take_all(queue)) == 6
    queue.replace("calm/x", actions(3))
    assert [key for key, _ in take_all(queue)] == ["calm/x", "calm/x"]


def test_a_namespace_at_its_limit_goes_on_when_one_of_its_requests_is_answered() -> None:
    queue = ActionQueue(8, namespace_limit=2)
    queue.replace("hot/x", actions(4))
    assert len(take_all(queue)) == 2
    queue.finish("hot/x", is_failed=False)
    assert take_all(queue) == [("hot/x", "p2")]


def test_long_turns_of_small_gangs_stay_within_their_namespace() -> None:
    queue = ActionQueue(3)
    for name in "abcd":
        queue.replace(f"hot/{name}", actions(8))
    queue.replace("calm/x", actions(4))
    sent = []
    for _ in range(8):
        key, _ = queue.take() or ("", None)
        queue.finish(key, is_failed=False)
        sent.append(key)
    assert sent == ["hot/a", "calm/x"] * 4


def test_order_of_any_number_of_flows_costs_the_same() -> None:
    """What is taken from a queue of 20,000 flows looks at a few of them."""

    def take_all() -> None:
        queue = ActionQueue(1)
        for number in range(20_000):
            queue.replace(f"hot/{number}", actions(1))
        for _ in range(20_000):
            key, _ = queue.take() or ("", None)
            queue.finish(key, is_failed=False)

    # Copying a list of all flows for each that is taken costs about 5 s.
    assert_costs_at_most(1.5, take_all)
