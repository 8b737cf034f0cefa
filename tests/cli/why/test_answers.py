"""The answer as users and programs get it."""

import json

from cli.clusterchoice import ClusterChoice
from cli.why.answers import build_structure, render_text
from cli.why.commands import Commands
from cli.why.observation import Observation
from cli.why.ranking import find_causes
from framework.api.states import TaskState
from tests.cli.why.builders import event, observe, pending, wait

MISSING = 'Failed to pull image "r/x:1": rpc error: code = NotFound desc = r/x:1: not found'


def build_broken(**fields: object) -> Observation:
    """A gang with two causes: an image and a missing ConfigMap."""
    pods = [
        pending(0, wait("ImagePullBackOff", 'Back-off pulling image "r/x:1"')),
        pending(1, wait("CreateContainerConfigError", 'configmap "s" not found')),
    ]
    return observe(pods, number=3, events={0: [event("Failed", MISSING)]}, **fields)  # type: ignore[arg-type]  # passed on


def render(observation: Observation, *, shows_all: bool = False) -> list[str]:
    return list(render_text(observation, find_causes(observation), shows_all=shows_all))


def test_answer_has_the_root_cause_its_time_message_and_commands() -> None:
    lines = render(build_broken())
    assert lines[0].startswith("gang: worker/0 cannot pull the image")
    assert lines[0].endswith("; 2 other Tasks wait")
    assert lines[1] == "  since     2026-01-01T00:00:00Z, 5m ago"
    assert lines[2] == f"  message   {MISSING}"
    assert "              kubectl set image pod/gang-worker-0 main=IMAGE" in lines
    assert lines[-1] == "1 more cause: framework why gang --all"


def test_all_causes_are_printed_from_the_deepest_on() -> None:
    lines = render(build_broken(), shows_all=True)
    subjects = [line for line in lines if line.startswith("gang: ")]
    assert [line.partition(" cannot")[0] for line in subjects] == [
        "gang: worker/0",
        "gang: worker/1",
    ]


def test_answer_without_cause_says_what_the_gang_does() -> None:
    running = observe(task_state=TaskState.ATTEMPT_RUNNING)
    assert render(running) == ["gang: nothing is wrong: all 2 Tasks run"]


def test_answer_names_what_was_not_seen() -> None:
    lines = render(observe(task_state=TaskState.ATTEMPT_RUNNING, unseen=("Events", "nodes")))
    assert lines[-1] == "not seen, for lack of a right or of an answer: Events, nodes"


def test_answer_names_missing_rights_and_the_commands_that_grant_them() -> None:
    observed = observe(
        task_state=TaskState.ATTEMPT_RUNNING,
        unseen=("Pods", "nodes"),
        missing_rights=("list pods", "get pods/log", "list nodes"),
    )
    lines = render(observed)
    assert lines[0] == "gang: nothing is wrong in what could be read: all 2 Tasks run"
    assert lines[2] == "missing rights: list pods, get pods/log, list nodes"
    create, user = "kubectl create", "--user=USER"
    nodes = "framework-why-nodes"
    assert [line.strip() for line in lines[4:]] == [
        (
            f"{create} role framework-why --verb=get,list --resource=pods --resource=pods/log "
            "-n default"
        ),
        f"{create} rolebinding framework-why --role=framework-why {user} -n default",
        f"{create} clusterrole {nodes} --verb=get,list --resource=nodes",
        f"{create} clusterrolebinding {nodes} --clusterrole={nodes} {user}",
    ]
    assert build_structure(observed, ())["missingRights"] == list(observed.missing_rights)


def test_long_message_is_cut() -> None:
    pods = [pending(0, wait("CreateContainerError", "x" * 10_000))]
    lines = render(observe(pods))
    assert max(map(len, lines)) < 1000


def test_structure_has_all_causes_and_is_json() -> None:
    observation = build_broken()
    structure = build_structure(observation, find_causes(observation))
    assert json.loads(json.dumps(structure)) == structure
    assert (structure["version"], structure["healthy"]) == ("why/v1", False)
    assert [cause["kind"] for cause in structure["causes"]] == ["Image", "Config"]
    first = structure["causes"][0]
    assert (first["tasks"], first["waitingTasks"]) == (["worker/0"], 2)
    assert first["since"] == "2026-01-01T00:00:00Z"
    assert first["remedies"][0]["commands"][1] == "kubectl set image pod/gang-worker-0 main=IMAGE"


def test_commands_repeat_the_cluster_options() -> None:
    choice = ClusterChoice(kubeconfig="my config", context="c", namespace="team")
    commands = Commands("gang", choice)
    assert commands.build_kubectl("get", "pods") == (
        "kubectl get pods -n team --kubeconfig 'my config' --context c"
    )
    assert commands.build_framework("logs", "gang").endswith(
        "logs gang -n team --kubeconfig 'my config' --context c"
    )
    assert commands.build_global_kubectl("uncordon", "n1") == (
        "kubectl uncordon n1 --kubeconfig 'my config' --context c"
    )


def test_kubectl_gets_the_kubeconfig_that_only_this_program_finds() -> None:
    commands = Commands("gang", kubeconfig="/run/kc")
    assert commands.build_kubectl("get", "pods") == "kubectl get pods --kubeconfig /run/kc"
    assert "--kubeconfig" not in commands.build_framework("logs", "gang")
