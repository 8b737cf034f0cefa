"""The screens of `framework run` at two sizes of a terminal, and the rules that all sizes keep."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli.running.layout import lay_out, wrap_cells
from cli.running.views import GangView, TaskLine, TaskPhase
from framework.api.naming import TaskKey

PHASES = {
    "Waiting": TaskPhase.WAITING,
    "Pending": TaskPhase.WAITING,
    "Running": TaskPhase.RUNNING,
    "Retrying": TaskPhase.RETRYING,
}
SIZES = [(80, 24), (200, 50)]
PULL = (
    "main: ImagePullBackOff: Back-off pulling image registry.example.com/team/training:2026-01-02: "
    "manifest unknown: the tag does not exist in the registry; ask its owner for the right tag"
)
TRACE = "exited with 1; last output: RuntimeError: NCCL error: remote process exited"


def line(
    index: int, state: str, note: str = "", *, attempt: int = 0, role: str = "worker"
) -> TaskLine:
    is_failed = state in {"Failed", "Retrying"}
    return TaskLine(
        TaskKey(role, index),
        state,
        attempt,
        note,
        code=1 if is_failed else None,
        is_own_failure=is_failed,
        phase=PHASES.get(state, TaskPhase.ENDED),
    )


def build_worlds(count: int) -> Iterator[tuple[str, tuple[TaskLine, ...], str]]:
    """Build named situations of a gang of so many Tasks."""
    yield "equal", tuple(line(i, "Running") for i in range(count)), ""
    mixed = [line(i, "Running") for i in range(count)]
    mixed[1] = line(1, "Waiting", PULL)
    mixed[3] = line(3, "Retrying", f"{TRACE}; next attempt in 3 s", attempt=1)
    yield "mixed", tuple(mixed), "blocked: the quota of the namespace is used up"
    # Each Task has a reason of its own.
    distinct = tuple(line(i, "Waiting", f"main: pulling {i}") for i in range(count))
    yield "distinct", distinct, ""


def draw(gang: GangView, size: tuple[int, int], alert: str | None = None) -> str:
    return "".join(f"{each.text}\n" for each in lay_out([gang], 12.3, alert, size))


@pytest.mark.parametrize("count", [4, 1000])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_screen_is_as_recorded(
    count: int, size: tuple[int, int], golden: Callable[[str, bytes], None]
) -> None:
    screens = [
        f"--- {name} ---\n{draw(GangView('train', 'Running', 0, note, tasks), size)}"
        for name, tasks, note in build_worlds(count)
    ]
    golden(f"screens/{count}-tasks-{size[0]}x{size[1]}.txt", "".join(screens).encode())


def test_equal_tasks_are_one_row_and_what_failed_is_first() -> None:
    tasks = [*(line(i, "Running") for i in range(31)), line(31, "Failed", "exited with 7")]
    assert draw(GangView("gang", "Running", 0, "", tuple(tasks)), (80, 23)).splitlines() == [
        "  gang  Running  attempt 0  12 s",
        "  worker/31    Failed   attempt 0  exited with 7",
        "  worker/0-30  Running  attempt 0",
    ]


def test_tasks_without_a_line_are_counted() -> None:
    tasks = [line(0, "Failed", "exited with 7")]
    tasks += [line(i, "Running", f"note {i}") for i in range(1, 31)]
    tasks += [line(31, "Waiting")]
    shown = draw(GangView("gang", "Running", 0, "", tuple(tasks)), (80, 3)).splitlines()
    assert shown == [
        "  gang  Running  attempt 0  12 s",
        "  worker/0   Failed   attempt 0  exited with 7",
        "  31 more Tasks: 1 Waiting, 30 Running",
    ]


def test_frameworks_without_a_line_are_counted() -> None:
    gangs = [GangView(f"g{i}", "Running", 0, "", ()) for i in range(9)]
    shown = [each.text for each in lay_out(gangs, 0.0, None, (80, 4))]
    assert shown[0] == "  g0  Running  attempt 0  0 s"
    assert shown[3] == "  6 more Frameworks"


def test_lines_that_one_framework_does_not_need_are_for_the_other() -> None:
    small = GangView("small", "Running", 0, "", (line(0, "Running"),))
    large = GangView("large", "Running", 0, "", tuple(line(i, "Waiting", f"{i}") for i in range(9)))
    assert len(lay_out([small, large], 0.0, None, (80, 12))) == 12


def test_long_reason_wraps_below_its_row() -> None:
    shown = draw(GangView("gang", "Waiting", 0, "", (line(0, "Waiting", PULL),)), (60, 20))
    rows = shown.splitlines()
    assert rows[1] == "  worker/0  Waiting  attempt 0"
    assert " ".join(text.strip() for text in rows[2:]) == PULL
    assert all(text.startswith("      ") for text in rows[2:])


def test_progress_of_the_training_is_below_the_title_and_wraps() -> None:
    training = "step 41200 of 100000, 3.25 steps/s, 5 h left; slowest: worker/3"
    tasks = tuple(line(i, "Running", f"note {i}") for i in range(9))
    gang = GangView("gang", "Running", 0, "", tasks, training=training)
    assert draw(gang, (80, 20)).splitlines()[1] == f"      {training}"
    rows = draw(gang, (40, 20)).splitlines()
    assert rows[0].startswith("  gang  Running")
    assert " ".join(text.strip() for text in rows[1:4]) == training
    assert rows[4].startswith("  worker/0")


TEXTS = st.text("ab 日é\x1b[/red]", max_size=60)
LINES = st.builds(
    line,
    st.integers(0, 2000),
    st.sampled_from(["Failed", "Retrying", "Waiting", "Running", "Succeeded", "Stopped"]),
    TEXTS,
    attempt=st.integers(0, 30),
    role=st.sampled_from(["a", "worker", "w" * 63]),
)
GANGS = st.builds(
    GangView,
    st.sampled_from(["g", "name-" * 12]),
    st.sampled_from(["Running", "Failed"]),
    st.integers(0, 9),
    TEXTS,
    st.lists(LINES, max_size=12, unique_by=lambda each: each.key).map(tuple),
    training=TEXTS,
)


@given(
    gangs=st.lists(GANGS, min_size=1, max_size=4),
    width=st.integers(1, 100),
    height=st.integers(1, 30),
    alert=st.none() | TEXTS,
)
def test_screen_of_any_size_is_kept_and_no_state_is_cut(
    gangs: list[GangView], width: int, height: int, alert: str | None
) -> None:
    lines = lay_out(gangs, 1e5, alert, (width, height))
    assert len(lines) <= height
    assert all(cell_len(each.text) <= width for each in lines)
    assert all("\x1b" not in each.text for each in lines)
    for each in lines:
        start = each.state_start
        assert each.text[start : start + len(each.state)] == each.state[: width - start]
        assert width < 10 or each.text.count(each.state)


@given(text=TEXTS, width=st.integers(2, 40))
def test_wrapped_text_loses_nothing(text: str, width: int) -> None:
    lines = wrap_cells(text, width)
    assert all(cell_len(each) <= width for each in lines)
    assert "".join(lines).replace(" ", "") == text.replace("\x1b", "\\x1b").replace(" ", "")
