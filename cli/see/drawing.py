"""Draws the tree of a Framework for a terminal, with equal Tasks in one row. Pure."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cli.printing.columns import Aligner
from cli.running.folding import TaskRow, count_states, fold_tasks
from cli.running.views import TaskLine
from cli.see.gangtree import FrameworkNode, PodNode, RoleNode, TaskNode
from framework.api.naming import TaskKey
from framework.api.text import make_printable

_HEADER = ("NAME", "STATE", "ATTEMPT", "RESTARTS", "NODE", "IP")
_SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the drawing, and those below it."""

    cells: tuple[str, ...]
    children: "tuple[_Row, ...]" = ()


def render_tree(tree: FrameworkNode, now: datetime, *, shows_all: bool = False) -> list[str]:
    """Draw the tree.

    Args:
        tree: as built.
        now: for the ages of failures.
        shows_all: each Task in a row of its own, and all of them.
    """
    children = [_Row((name,)) for name in tree.objects]
    children += [_Row((failure.describe(now),)) for failure in tree.failures]
    children += [_build_role(role, now, shows_all=shows_all) for role in tree.roles]
    state = tree.view.state
    cells = (f"Framework/{tree.view.name}", state, str(tree.view.attempt))
    rows = list(_draw(_Row(cells, tuple(children)), "", ""))
    notes = [f"{tree.view.name}: {tree.view.note}"] if tree.view.note else []
    table = [[*row, *[""] * (len(_HEADER) - len(row))] for row in [_HEADER, *rows]]
    return [make_printable(line).rstrip() for line in [*_align(table), *notes]]


def _align(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align rows; a row that has only a name does not widen the first column."""
    plain = [row for row in table if any(row[1:])]
    lines = iter(list(Aligner().align(plain)))
    for row in table:
        yield next(lines) if any(row[1:]) else row[0]


def _build_role(role: RoleNode, now: datetime, *, shows_all: bool) -> _Row:
    nodes = {node.line.key: node for node in role.tasks}

    def identify(line: TaskLine) -> Hashable:
        if shows_all:
            return line.key
        pod = nodes[line.key].pod
        return pod and (pod.phase, pod.restarts), nodes[line.key].failures

    folded = fold_tasks((node.line for node in role.tasks), identify)
    shown = folded if shows_all else folded[:_SHOWN_ROWS]
    rows = [_build_task(row, nodes, now) for row in shown]
    hidden = sum(len(row.indices) for row in folded[len(shown) :])
    if hidden:
        rows.append(_Row((f"... and {hidden} more Tasks: --all shows them",)))
    states = count_states(node.line for node in role.tasks)
    return _Row((f"{role.name} ({states})",), tuple(rows))


def _build_task(row: TaskRow, nodes: Mapping[TaskKey, TaskNode], now: datetime) -> _Row:
    line = row.line
    found = (nodes[TaskKey(line.key.role, index)].pod for index in row.indices)
    pods = [pod for pod in found if pod is not None]
    failures = nodes[line.key].failures
    children = [_Row((f"failure: {failure.describe(now)}",)) for failure in failures]
    if line.note:
        children.append(_Row((line.note,)))
    if pods:
        children.append(_build_pods(pods))
    return _Row((row.name, line.state, str(line.attempt)), tuple(children))


def _build_pods(pods: Sequence[PodNode]) -> _Row:
    first = pods[0]
    name = f"Pod/{first.name}" if len(pods) == 1 else f"{len(pods)} Pods"
    return _Row(
        (
            name,
            first.phase,
            "",
            str(first.restarts),
            _name_values({pod.node for pod in pods}, "nodes"),
            _name_values({pod.ip for pod in pods}, "addresses"),
        )
    )


def _name_values(values: set[str], plural: str) -> str:
    known = values - {""}
    return next(iter(known), "") if len(known) < 2 else f"{len(known)} {plural}"  # noqa: PLR2004 two


def _draw(row: _Row, lead: str, below: str) -> Iterator[tuple[str, ...]]:
    yield (lead + row.cells[0], *row.cells[1:])
    for number, child in enumerate(row.children, 1):
        is_last = number == len(row.children)
        yield from _draw(
            child,
            below + ("└─" if is_last else "├─"),
            below + ("  " if is_last else "│ "),
        )
