"""The order of actions: fair between namespaces and Frameworks, slow after errors."""

import pytest

from controller.core.actions import CreatePod, DeleteObject, ObjectKind
from controller.queues.action_queue import MAX_WINDOW, ActionQueue
from controller.queues.body_bytes import measure_body
from controller.store.packed_templates import pack_templates
from framework.api.naming import TaskKey
from framework.api.types import TaskSpec
from tests.support.builders import build_framework, build_role, build_spec, build_template_wire
from tests.support.builders.cases import cases
from tests.support.measuring.cost import assert_costs_at_most

FAILED, OK = True, False
MEBIBYTE = 1024 * 1024


def actions(count: int, prefix: str = "p") -> list[DeleteObject]:
    return [DeleteObject(ObjectKind.POD, f"{prefix}{n}", f"uid{n}", "why") for n in range(count)]


class Queue(ActionQueue):
    """Takes several actions at a time, and finishes them."""

    def add(self, key: str, count: int = 1, prefix: str = "p") -> None:
        self.replace(key, actions(count, prefix))

    def take_all(self) -> list[tuple[str, str]]:
        taken = []
        while (item := self.take()) is not None:
            taken.append((item[0], item[1].key.name))
        return taken

    def take_keys(self) -> list[str]:
        return [key for key, _ in self.take_all()]

    def run(self, *results: bool, is_read: bool = False) -> list[str]:
        """Take an action and finish it, as often as there are results; return the keys."""
        keys = []
        for is_failed in results:
            key, _ = self.take() or ("", None)
            self.finish(key, is_failed=is_failed, is_read=is_read)
            keys.append(key)
        return keys


@pytest.fixture
def queue() -> Queue:
    return Queue(64, namespace_limit=32)


@cases(
    "limit counts expected",
    two_flows=(100, {"a": 3, "b": 2}, ["a", "b", "a", "b", "a"]),
    a_large_gang_and_a_small_one=(
        4,
        {"large": 1000, "small": 1},
        ["large", "small"] + ["large"] * 2,
    ),
    many_frameworks_of_a_namespace=(
        2,
        {f"hot/{n}": 10 for n in range(50)} | {"calm/x": 2},
        ["hot/0", "calm/x"],
    ),
)
def test_flows_take_turns(limit: int, counts: dict[str, int], expected: list[str]) -> None:
    queue = Queue(limit)
    for key, count in counts.items():
        queue.add(key, count)
    assert queue.take_keys() == expected


@cases(
    "keys expected",
    one_after_the_other=("abcd", ["a"] * 8 + ["b"] * 8 + ["c"] * 8),
    within_their_namespace=(
        ["hot/a", "hot/b", "hot/c", "hot/d", "calm/x"],
        ["hot/a", "calm/x"] * 8,
    ),
)
def test_turns_are_long_when_many_flows_wait(keys: list[str], expected: list[str]) -> None:
    queue = Queue(3)
    for key in keys:
        queue.add(key, 12)
    assert queue.run(*[OK] * len(expected)) == expected


def test_number_of_running_requests_is_limited() -> None:
    queue = Queue(3)
    queue.add("a", 5)
    assert len(queue.take_all()) == 3
    queue.finish("a", is_failed=False)
    assert (queue.running, len(queue.take_all())) == (2, 1)


def test_newest_decision_replaces_the_actions_that_are_not_sent() -> None:
    queue = Queue(1)
    queue.add("a", 900)
    queue.take()
    queue.add("a", 1, "other")
    queue.finish("a", is_failed=False)
    assert queue.take_all() == [("a", "other0")]


def test_action_that_is_not_wanted_any_more_is_not_sent() -> None:
    queue = Queue(1)
    queue.add("a", 4)
    queue.add("b", 1)
    queue.take()
    queue.retain("a", [*actions(2), *actions(1, "new")])
    queue.retain("b", [])
    queue.finish("a", is_failed=False)
    assert queue.take_all() == [("a", "p1")]
    queue.finish("a", is_failed=False)
    assert queue.is_empty


def test_same_action_twice_is_sent_once(queue: Queue) -> None:
    queue.replace("a", [*actions(2), *actions(2)])
    assert len(queue.take_all()) == 2


def test_flow_starts_slowly_after_an_error_and_doubles_with_each_success() -> None:
    queue = Queue(1000)
    queue.add("a", 500)
    assert len(queue.take_all()) == MAX_WINDOW
    for _ in range(MAX_WINDOW):
        queue.finish("a", is_failed=True)
    running = 0
    for window in (1, 2, 4, 8):
        running += len(queue.take_all())
        assert running == window
        queue.finish("a", is_failed=False)
        running -= 1


def test_error_of_one_framework_slows_no_other() -> None:
    queue = Queue(1000)
    queue.add("bad", 10)
    queue.run(FAILED)
    queue.add("good", 10)
    assert queue.take_keys().count("good") == 10


def test_namespace_whose_requests_fail_has_one_at_a_time(queue: Queue) -> None:
    for number in range(100):
        queue.add(f"bad/{number}")
    queue.run(*[FAILED] * 5)
    queue.add("good/x", 40)
    namespaces = [key.partition("/")[0] for key in queue.take_keys()]
    assert (namespaces.count("bad"), namespaces.count("good")) == (1, 32)
    assert (queue.get_window("bad"), queue.get_window("good")) == (1, 32)


@pytest.mark.parametrize("is_read", [False, True])
def test_namespace_becomes_fast_when_requests_succeed(queue: Queue, *, is_read: bool) -> None:
    for number in range(100):
        queue.add(f"a/{number}", 100 if is_read else 1)
    queue.run(*[FAILED] * 6, *[OK] * 5, is_read=is_read)
    assert len(queue.take_all()) == 32


def test_reads_that_succeed_between_refused_creates_change_nothing(queue: Queue) -> None:
    for _ in range(6):
        queue.add("a/x")
        queue.run(FAILED)
        queue.add("a/x")
        queue.run(OK, is_read=True)
    queue.add("a/x", 9)
    assert (queue.get_window("a"), len(queue.take_all())) == (1, 1)


def test_one_read_after_each_refused_create_does_not_count(queue: Queue) -> None:
    queue.add("a/x", 100)
    queue.run(*[FAILED] * 3)
    windows = []
    for _ in range(6):
        queue.run(OK, is_read=True)
        windows.append(queue.get_window("a"))
    assert windows == [4, 4, 4, 8, 16, 32]
    assert len(queue.take_all()) == 8


def test_reads_become_fast_however_many_writes_have_failed(queue: Queue) -> None:
    queue.add("a/x", 1000)
    queue.run(*[FAILED] * 500)
    queue.run(*[OK] * 100, is_read=True)
    assert len(queue.take_all()) == 32


def test_one_error_among_many_requests_slows_their_namespace_for_one_request(queue: Queue) -> None:
    for number in range(100):
        queue.add(f"a/{number}")
    sent = queue.take_keys()
    for key, is_failed, window in ((sent[0], FAILED, 16), (sent[1], OK, 32)):
        queue.finish(key, is_failed=is_failed)
        assert queue.get_window("a") == window


def test_cleared_queue_sends_nothing_more_and_names_the_keys_that_lost_actions() -> None:
    queue = Queue(1)
    queue.add("a", 2)
    queue.take()
    queue.replace("b", [])
    assert queue.clear() == ["a"]
    queue.finish("a", is_failed=False)
    assert queue.take() is None
    assert queue.running == 0


@pytest.mark.parametrize("result", [OK, FAILED])
def test_idle_flow_is_forgotten_with_its_errors(queue: Queue, *, result: bool) -> None:
    queue.add("a/x")
    queue.run(result)
    if result is FAILED:
        queue.forget("a/x")
    assert queue.is_empty
    queue.add("a/x", 3)
    assert len(queue.take_all()) == 3


def test_namespace_whose_requests_hang_leaves_slots_to_others() -> None:
    queue = Queue(8, namespace_limit=6)
    for number in range(50):
        queue.add(f"hot/{number}", 10)
    assert len(queue.take_all()) == 6
    queue.add("calm/x", 3)
    assert queue.take_keys() == ["calm/x", "calm/x"]


def test_namespace_at_its_limit_sends_the_next_request_after_an_answer() -> None:
    queue = Queue(8, namespace_limit=2)
    queue.add("hot/x", 4)
    assert len(queue.take_all()) == 2
    queue.finish("hot/x", is_failed=False)
    assert queue.take_all() == [("hot/x", "p2")]


def test_take_of_any_number_of_flows_costs_the_same() -> None:
    def take_all() -> None:
        queue = Queue(1)
        for number in range(20_000):
            queue.add(f"hot/{number}")
        queue.run(*[OK] * 20_000)

    # Copying a list of all flows for each that is taken costs about 5 s.
    assert_costs_at_most(1.5, take_all)


def create_pods(count: int, template_bytes: int) -> list[CreatePod]:
    """The creates of Pods whose template has about so many bytes."""
    pod = build_template_wire(args=["x" * template_bytes])
    spec = pack_templates(build_spec(build_role(number=count, task=TaskSpec(pod=pod))))
    framework = build_framework(spec, None)
    return [
        CreatePod(framework, f"p{n}", f"{n}/0", "why", task=TaskKey("worker", n))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("template_bytes", "sent"),
    [(1_000, 32), (30_000, 32), (100_000, 11), (MEBIBYTE // 2, 2), (9 * MEBIBYTE, 1)],
)
def test_namespace_sends_fewer_requests_with_large_bodies(
    queue: Queue, template_bytes: int, sent: int
) -> None:
    queue.replace("hot/a", create_pods(40, template_bytes))
    queue.add("calm/a", 3)
    taken = queue.take_keys()
    assert taken.count("hot/a") == sent
    assert taken.count("calm/a") == 3


def test_namespace_with_large_bodies_sends_the_next_after_an_answer(queue: Queue) -> None:
    queue.replace("hot/a", actions := create_pods(9, MEBIBYTE // 2))
    for _ in range(4):
        assert queue.take_keys() == ["hot/a"] * 2
        assert queue.take() is None
        for _ in range(2):
            queue.finish("hot/a", is_failed=False, body_bytes=measure_body(actions[0]))
    assert queue.take_keys() == ["hot/a"]


def test_bodies_of_all_namespaces_together_are_limited(queue: Queue) -> None:
    for number in range(20):
        queue.replace(f"n{number}/a", create_pods(2, MEBIBYTE))
    assert queue.take_keys() == [f"n{number}/a" for number in range(16)]
