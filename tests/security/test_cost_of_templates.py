"""A decision costs no more because a Pod template is large: it reads the facts of the template.

Each stage of the other tests of cost, with a template of 1.4 MB, which is as large as an API server
stores. To read it takes some hundredths of a second, so a decision that reads it for each Task
exceeds the limit by far. The other tests show that the cost grows with the Tasks.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

import pytest

from controller.core.decide import decide
from controller.core.snapshot import Snapshot
from controller.store.packed_templates import PackedTemplate, pack_templates
from framework.api import constants
from framework.api.leaving import NODE_CORDONED, LeaveNodesSpec
from framework.api.nodes import UNSCHEDULABLE_TAINT, NodeNotice, Taint
from framework.api.recovery import RecoverySpec
from framework.api.states import TaskState
from framework.api.templatefacts import TemplateFacts, read_facts
from tests.security import test_cost_of_core, test_cost_of_recovery, test_cost_of_training
from tests.security.linearcost import SETTINGS, Stage
from tests.support.builders import at
from tests.support.builders.largegangs import LargeGang, build_snapshot
from tests.support.measuring.cost import assert_costs_at_most

TASKS = 1_000
LIMIT_SECONDS = 0.2
TEMPLATE_BYTES = 1_400_000
NODE = "n1"
# Of these, a hostile template consists; the smallest JSON for the most Python objects.
ITEMS: dict[str, Any] = {
    "object": {},
    "text": "",
    "toleration": {"key": "a", "operator": "Exists"},
    "volume": {"secret": {"secretName": "a-gang-key"}},
}
PLACES: dict[str, Callable[[list[Any]], Any]] = {
    "unknown": lambda items: {"junk": items},
    "containers": lambda items: {"spec": {"containers": items}},
    "init": lambda items: {"spec": {"initContainers": items}},
    "env": lambda items: {"spec": {"containers": [{"env": items}]}},
    "args": lambda items: {"spec": {"containers": [{"args": items}]}},
    "image": lambda items: {"spec": {"containers": [{"image": items}]}},
    "volumes": lambda items: {"spec": {"volumes": items}},
    "sources": lambda items: {"spec": {"volumes": [{"projected": {"sources": items}}]}},
    "tolerations": lambda items: {"spec": {"tolerations": items}},
    "annotations": lambda items: {
        "metadata": {"annotations": {constants.RETRYABLE_CODES_ANNOTATION: items}}
    },
}


def fill(item: Any) -> list[Any]:
    count = TEMPLATE_BYTES // (len(repr(item)) + 1)
    return [dict(item) if isinstance(item, dict) else item for _ in range(count)]


def enlarge(snapshot: Snapshot) -> Snapshot:
    """The same Snapshot, as the store has it, with a large template in the first role."""
    spec = snapshot.framework.spec
    first, *others = spec.task_roles
    pod = pack_large(json.dumps(first.task.pod))
    first = replace(first, task=replace(first.task, pod=pod))
    spec = pack_templates(replace(spec, task_roles=(first, *others)))
    return replace(snapshot, framework=replace(snapshot.framework, spec=spec))


@lru_cache
def pack_large(template: str) -> PackedTemplate:
    """Pack a template, given as JSON, with many unknown fields."""
    return PackedTemplate.pack({**json.loads(template), "junk": fill({})})


def cordoned(gang: LargeGang) -> Snapshot:
    """All Pods run on a node that is cordoned now."""
    pods = {name: replace(pod, node_name=NODE) for name, pod in gang.build_pods().items()}
    spec = gang.build_spec(recovery=RecoverySpec(leave_nodes=LeaveNodesSpec()))
    notice = NodeNotice(Taint(UNSCHEDULABLE_TAINT, "NoSchedule"), at(3600) - timedelta(seconds=1))
    status = gang.build_status(TaskState.ATTEMPT_RUNNING)
    published = gang.build_published()
    return build_snapshot(spec, status, pods, published=published, nodes={NODE: (notice,)})


STAGES: dict[str, Stage] = {
    **test_cost_of_core.STAGES,
    **{f"in_place_{name}": stage for name, stage in test_cost_of_recovery.STAGES.items()},
    "trained": test_cost_of_training.build_trained,
    "cordoned": cordoned,
}


@pytest.mark.parametrize("name", STAGES)
def test_decision_costs_no_more_because_a_template_is_large(name: str) -> None:
    snapshot = enlarge(STAGES[name](LargeGang(TASKS, 2)))
    assert_costs_at_most(LIMIT_SECONDS, partial(decide, snapshot, SETTINGS))


@pytest.mark.parametrize("name", STAGES)
def test_decision_unpacks_a_template_at_most_once_for_the_history(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = list[PackedTemplate]()
    unpack = PackedTemplate._unpack

    def count(template: PackedTemplate) -> dict[str, Any]:
        unpacked.append(template)
        return unpack(template)

    monkeypatch.setattr(PackedTemplate, "_unpack", count)
    decision = decide(enlarge(STAGES[name](LargeGang(8, 2))), SETTINGS)
    assert len(unpacked) <= (2 if decision.snapshots else 0)


def test_tasks_on_a_cordoned_node_leave() -> None:
    status = decide(enlarge(cordoned(LargeGang(8, 2))), SETTINGS).status
    assert status is not None
    leaving = [task.attempt_status.leaving for _, task in status.attempt_status.walk_tasks()]
    assert [each.reason for each in leaving if each is not None] == [NODE_CORDONED] * 8


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("place", PLACES)
def test_facts_of_a_large_template_cost_little_and_are_small(place: str, item: str) -> None:
    template = PLACES[place](fill(ITEMS[item]))
    assert_costs_at_most(0.1, partial(read_facts, template))
    assert measure_bytes(read_facts(template)) < 64 * 1024


def test_facts_of_the_longest_names_are_small() -> None:
    tolerations = [
        {"key": f"{number:0316}", "effect": "e" * 32, "value": f"{number:063}"}
        for number in range(3000)
    ]
    volumes = [{"secret": {"secretName": f"{number:0244}-gang-key"}} for number in range(64)]
    spec = {"tolerations": tolerations, "volumes": volumes, "containers": [{"name": "x" * 9000}]}
    facts = read_facts({"spec": spec})
    assert len(facts.tolerations) == 64
    assert facts.gang_keys is not None
    assert len(facts.gang_keys) == 64
    assert measure_bytes(facts) < 80 * 1024


def measure_bytes(facts: TemplateFacts) -> int:
    parts = [facts.runner, facts.tolerations, facts.gang_keys, *(facts.gang_keys or ())]
    parts += [part for toleration in facts.tolerations for part in (toleration, *toleration)]
    return sum(map(sys.getsizeof, parts))
