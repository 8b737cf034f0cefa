"""`framework lint` of agents: who writes what is read, their words, their settings, their slots."""

import copy
from typing import Any

import pytest

from cli.authoring.findings import Finding
from cli.authoring.injection import InjectionOptions, Rendezvous, inject
from cli.authoring.rules import LintOptions, lint
from tests.cli.authoring.injected import SPEC, build, find_places, get_spec

INJECTOR = ". /mnt/frameworkbarrier/injector.sh && train"
ENV_FILE = ". /mnt/frameworkbarrier/current/env.sh && train"


def build_with(rendezvous: Rendezvous, *words: str, **container: Any) -> dict[str, Any]:
    framework = build()
    get_spec([framework])["containers"][0] |= {"command": list(words), "args": [], **container}
    return inject(framework, InjectionOptions(rendezvous=rendezvous))[-1]


def find(framework: dict[str, Any]) -> list[Finding]:
    return lint(framework, LintOptions())


def set_env(framework: dict[str, Any], place: str, **env: Any) -> None:
    """Set variables of ``init 0`` or ``main 0``."""
    kind, index = place.split()
    containers = get_spec([framework])["initContainers" if kind == "init" else "containers"]
    variables = containers[int(index)].setdefault("env", [])
    variables += [{"name": name, "value": value} for name, value in env.items()]


@pytest.mark.parametrize(
    ("rendezvous", "script", "is_written"),
    [
        (Rendezvous.NONE, INJECTOR, True),
        (Rendezvous.NONE, ENV_FILE, False),
        (Rendezvous.INIT, INJECTOR, True),
        (Rendezvous.INIT, ENV_FILE, True),
        (Rendezvous.SIDECAR, INJECTOR, True),
        (Rendezvous.SIDECAR, ENV_FILE, True),
        (Rendezvous.WRAPPER, INJECTOR, False),
        (Rendezvous.WRAPPER, ENV_FILE, True),
    ],
)
def test_lint_asks_for_the_agent_that_writes_what_is_read(
    rendezvous: Rendezvous, script: str, *, is_written: bool
) -> None:
    found = find_places(build_with(rendezvous, "sh", "-c", script))

    assert found == ([] if is_written else [("missing-agent", f"{SPEC}.containers[0]")])


@pytest.mark.parametrize("script", [INJECTOR, ENV_FILE])
def test_lint_missing_agent_is_mended_by_inject_as_it_says(script: str) -> None:
    framework = build_with(Rendezvous.NONE, "sh", "-c", script)
    if script == INJECTOR:
        framework = build_with(Rendezvous.WRAPPER, "sh", "-c", script)
    assert find_places(framework) == [("missing-agent", f"{SPEC}.containers[0]")]

    assert find_places(inject(framework, InjectionOptions())[-1]) == []


def test_lint_agent_without_an_image_is_one_fault() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["containers"][0]["args"] = [". /mnt/frameworkbarrier/injector.sh"]
    spec["initContainers"] = [{"name": "barrier"}]

    assert find_places(framework) == [("pod-template", f"{SPEC}.initContainers[0].image")]


def test_lint_wrapper_that_nobody_installs_is_found() -> None:
    framework = build_with(Rendezvous.WRAPPER, "train")
    spec = get_spec([framework])
    spec["initContainer"] = spec.pop("initContainers")

    (found,) = find(framework)

    assert (found.rule, found.path) == ("missing-agent", f"{SPEC}.containers[0]")
    assert "starts /mnt/frameworkbarrier/agent/rendezvous.pyz" in found.message


@pytest.mark.parametrize("volume", [{"hostPath": {"path": "/srv/agents"}}, None])
def test_lint_agent_that_comes_otherwise_is_not_missed(volume: dict[str, Any] | None) -> None:
    framework = build_with(Rendezvous.WRAPPER, "train")
    spec = get_spec([framework])
    del spec["initContainers"]
    if volume:
        spec["volumes"][0] = {"name": spec["volumes"][0]["name"], **volume}
    else:
        spec["containers"][0]["command"][1] = "/opt/agent/rendezvous.pyz"

    assert find_places(framework) == []


def test_lint_installer_by_an_image_of_another_name_is_known_by_its_words() -> None:
    framework = build_with(Rendezvous.WRAPPER, "train")
    get_spec([framework])["initContainers"][0]["image"] = "mirror/agent:1"

    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["installs"], "write `install`"),
        (["wacth"], "write `watch`"),
        ([], "write render, watch, install or `run -- COMMAND` (docs/rendezvous.md)"),
        (["watch", "--slot", "8"], "write render, watch, install or `run -- COMMAND`"),
    ],
)
def test_lint_words_that_the_agent_does_not_know_are_found(words: list[str], told: str) -> None:
    framework = build_with(Rendezvous.INIT, "train")
    get_spec([framework])["initContainers"][1]["args"] = words

    found = [f for f in find(framework) if f.rule == "agent-settings"]

    assert [f.path for f in found] == [f"{SPEC}.initContainers[1].{'args' if words else 'command'}"]
    assert found[0].fix.startswith(told)


@pytest.mark.parametrize(
    "command",
    [
        ["framework-rendezvous", "render"],
        ["sh", "-c", "sleep 1; exec framework-rendezvous render"],
        ["/bin/framework-rendezvous", "render", "--slots", "$(SLOTS)"],
    ],
)
def test_lint_agent_that_is_called_otherwise_is_left_alone(command: list[str]) -> None:
    framework = build_with(Rendezvous.INIT, "train")
    agent = get_spec([framework])["initContainers"][1]
    del agent["args"]
    agent["command"] = command

    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"FB_ON_CHANGE": "restrat"}, "FB_ON_CHANGE='restrat': it is none of notify, restart"),
        ({"FB_PORTS": "worker=70000"}, "FB_PORTS='worker=70000'"),
        ({"FB_PORTS": "workr=2222"}, "FB_PORTS: the gang has no role 'workr'"),
        ({"FB_ROLES": "trainer=worker"}, "FB_ROLES: the gang has no role 'trainer'"),
        ({"FB_SLOT": "8"}, "FB_SLOT: there is no such setting"),
        ({"FB_FORMATS": "openmp"}, "FB_FORMATS: openmp is no built-in format"),
        ({"FB_WORKER_PORT": "none"}, "FB_WORKER_PORT='none'"),
        ({"FB_TIMEOUT_SEC": "10m"}, "FB_TIMEOUT_SEC='10m': it is no number of seconds"),
    ],
)
@pytest.mark.parametrize(
    ("rendezvous", "place", "path"),
    [
        (Rendezvous.SIDECAR, "init 1", f"{SPEC}.initContainers[1].env"),
        (Rendezvous.WRAPPER, "main 0", f"{SPEC}.containers[0].env"),
    ],
)
def test_lint_settings_that_the_rendezvous_agent_refuses_are_found(
    env: dict[str, str], told: str, rendezvous: Rendezvous, place: str, path: str
) -> None:
    framework = build_with(rendezvous, "train")
    set_env(framework, place, **env)

    (found,) = find(framework)

    assert (found.rule, found.path) == ("agent-settings", path)
    assert found.message.startswith(told)
    assert found.fix


def test_lint_settings_given_as_flags_are_judged_where_they_stand() -> None:
    framework = build_with(Rendezvous.INIT, "train")
    get_spec([framework])["initContainers"][1]["args"] = ["render", "--slots=many"]

    (found,) = find(framework)

    assert found.path == f"{SPEC}.initContainers[1].args"
    assert found.message.startswith("--slots='many'")


@pytest.mark.parametrize(
    "env",
    [
        {"FB_ON_CHANGE": "$(MODE)"},
        {"FB_COORDINATOR": "{{FC_TASKROLE_NAME}}"},
        {"FB_PORTS": ""},
        {"FB_ON_CHANGE": None},
        {"FB_FORMATS": "our_own"},
        {"FB_DATASET": "/data"},
        {"FB_PORTS": "worker=2222+index", "FB_TRAINER_PORT": "2222"},
    ],
)
def test_lint_settings_that_may_be_right_are_left_alone(env: dict[str, Any]) -> None:
    framework = build_with(Rendezvous.SIDECAR, "train")
    set_env(framework, "init 1", **env)

    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("env", "message", "fix"),
    [
        (
            {"BARRIER_CHECK_INTERVAL_SEC": "1"},
            "$BARRIER_CHECK_INTERVAL_SEC is '1': the barrier ends with 210",
            "set it to a whole number at least 5, or unset it",
        ),
        (
            {"BARRIER_REQUIRE": "worker=running"},
            "$BARRIER_REQUIRE: worker=running in a Pod of role worker waits for itself",
            "ask for worker=dns, or leave it out",
        ),
        (
            {"BARRIER_REQUIRE": "workr=tcp:22"},
            "BARRIER_REQUIRE: workr=tcp:22 is about no role of this gang",
            "its roles are: worker",
        ),
        (
            {"BARRIER_EXPECT": "worker:2"},
            "$BARRIER_EXPECT: ",
            "write it like ps=1,worker=4, or unset it",
        ),
    ],
)
def test_lint_settings_that_the_barrier_refuses_are_found(
    env: dict[str, str], message: str, fix: str
) -> None:
    framework = build_with(Rendezvous.NONE, "train")
    set_env(framework, "init 0", **env)

    (found,) = find(framework)

    assert (found.rule, found.path) == ("agent-settings", f"{SPEC}.initContainers[0].env")
    assert found.message.startswith(message)
    assert found.fix == fix


GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


@pytest.mark.parametrize(
    "words",
    [
        ["torchrun", "/app/train.py"],
        ["python3", "-m", "torch.distributed.run", "/app/train.py"],
        ["mpirun", "-x", "PATH", "python3", "/app/train.py"],
        ["/usr/bin/horovodrun", "--host-discovery-script", "/mnt/frameworkbarrier/current/hosts"],
        ["sh", "-c", "set -e\nexec deepspeed --hostfile $FB_DEEPSPEED_HOSTFILE train.py"],
        ["sh", "-cu", "cd /app && mpirun --hostfile /mnt/frameworkbarrier/current/hosts.openmpi t"],
    ],
)
def test_lint_launcher_that_would_leave_gpus_idle_is_found(words: list[str]) -> None:
    framework = build_with(Rendezvous.WRAPPER, *words, **GPUS)

    (found,) = find(framework)

    assert (found.rule, found.path) == ("missing-slots", f"{SPEC}.containers[0].env")
    assert '{name: FB_SLOTS, value: "8"}' in found.fix
    set_env(framework, "main 0", FB_SLOTS="8")
    assert find(framework) == []


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["python3", "/app/jax.py"], {}),
        (["python3", "/app/train.py", "--launcher", "torchrun"], {}),
        (["torchrun", "--nproc-per-node=gpu", "/app/train.py"], {}),
        (["torchrun", "--nproc_per_node", "8", "/app/train.py"], {}),
        (["torchrun", "/app/train.py"], {"FB_TORCH_NPROC": "gpu"}),
        (["mpirun", "-H", "a,b", "train"], {}),
        (["mpirun", "--map-by", "ppr:8:node", "train"], {}),
        (["mpirun", "train"], {"FB_SLOTS": "1"}),
    ],
)
def test_lint_processes_that_are_counted_otherwise_are_left_alone(
    words: list[str], env: dict[str, str]
) -> None:
    framework = build_with(Rendezvous.WRAPPER, *words, **GPUS)
    set_env(framework, "main 0", **env)

    assert find_places(framework) == []


def test_lint_slots_of_the_workers_are_asked_for_where_mpirun_runs() -> None:
    framework = build_with(Rendezvous.WRAPPER, "mpirun", "train")
    worker = copy.deepcopy(framework["spec"]["taskRoles"][0])
    worker["task"]["pod"]["spec"]["containers"][0] |= {"command": ["sshd"], **GPUS}
    framework["spec"]["taskRoles"].append(worker | {"name": "other"})

    assert find_places(framework) == [("missing-slots", f"{SPEC}.containers[0].env")]


def test_lint_torchrun_without_the_agents_variables_has_its_own() -> None:
    assert find_places(build_with(Rendezvous.SIDECAR, "torchrun", "train.py", **GPUS)) == []


@pytest.mark.parametrize(
    ("policy", "retries", "is_found"),
    [
        (None, 0, True),
        ({}, 0, True),
        ({"minSucceededTaskCount": 1}, 0, True),
        ({"minFailedTaskCount": 0}, 3, True),
        ({"minFailedTaskCount": 1}, 0, False),
        # Said in so many words.
        ({"minFailedTaskCount": -1}, 0, False),
        # A failure is always retried.
        (None, -1, False),
        (None, -2, False),
    ],
)
def test_lint_gang_whose_failures_count_nothing_is_found(
    policy: dict[str, int] | None, retries: int, *, is_found: bool
) -> None:
    framework = build_with(Rendezvous.SIDECAR, "train")
    role = framework["spec"]["taskRoles"][0]
    role["frameworkAttemptCompletionPolicy"] = policy
    role["task"]["retryPolicy"]["maxRetryCount"] = retries

    path = "spec.taskRoles[0].frameworkAttemptCompletionPolicy.minFailedTaskCount"
    assert find_places(framework) == ([("uncounted-failures", path)] if is_found else [])


def test_lint_failures_that_another_role_counts_are_enough() -> None:
    framework = build_with(Rendezvous.SIDECAR, "train")
    server = copy.deepcopy(framework["spec"]["taskRoles"][0])
    del server["frameworkAttemptCompletionPolicy"]
    framework["spec"]["taskRoles"].append(server | {"name": "ps"})

    assert find_places(framework) == []


def test_lint_batch_without_agents_may_succeed_with_failures() -> None:
    assert find_places(build(frameworkAttemptCompletionPolicy={})) == []
