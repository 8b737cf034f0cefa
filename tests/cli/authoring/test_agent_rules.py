"""`framework lint` of agents: the files they write, their words, their settings, their slots."""

import copy
from typing import Any

import pytest

from cli.authoring.findings import Finding
from cli.authoring.injection import InjectionOptions, Rendezvous, inject
from cli.authoring.rules import LintOptions, lint
from tests.cli.authoring.injected import SPEC, build, find_places, get_spec

NONE, INIT, SIDECAR, WRAPPER = Rendezvous
INJECTOR = ". /mnt/frameworkbarrier/injector.sh && train"
ENV_FILE = ". /mnt/frameworkbarrier/current/env.sh && train"
MAIN = f"{SPEC}.containers[0]"
GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
# The container of the agent: the barrier, the init container or sidecar, the wrapped container.
PLACES = {
    NONE: ("initContainers", 0),
    INIT: ("initContainers", 1),
    SIDECAR: ("initContainers", 1),
    WRAPPER: ("containers", 0),
}


def build_with(
    rendezvous: Rendezvous, *words: str, env: dict[str, Any] | None = None, **container: Any
) -> dict[str, Any]:
    """Build a Framework with agents; ``env`` is added to the agent's container."""
    framework = build()
    get_spec([framework])["containers"][0] |= {"command": list(words), "args": [], **container}
    framework = inject(framework, InjectionOptions(rendezvous=rendezvous))[-1]
    add_env(framework, rendezvous, **(env or {}))
    return framework


def add_env(framework: dict[str, Any], rendezvous: Rendezvous, **env: Any) -> None:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    get_agent(framework, rendezvous).setdefault("env", []).extend(variables)


def get_agent(framework: dict[str, Any], rendezvous: Rendezvous) -> dict[str, Any]:
    kind, index = PLACES[rendezvous]
    agent: dict[str, Any] = get_spec([framework])[kind][index]
    return agent


def find_one(framework: dict[str, Any]) -> Finding:
    (found,) = lint(framework, LintOptions())
    return found


@pytest.mark.parametrize(
    ("rendezvous", "script", "is_written"),
    [
        (NONE, INJECTOR, True),
        (NONE, ENV_FILE, False),
        (INIT, INJECTOR, True),
        (INIT, ENV_FILE, True),
        (SIDECAR, INJECTOR, True),
        (SIDECAR, ENV_FILE, True),
        (WRAPPER, INJECTOR, False),
        (WRAPPER, ENV_FILE, True),
    ],
)
def test_lint_asks_for_the_agent_that_writes_a_file_until_inject_adds_it(
    rendezvous: Rendezvous, script: str, *, is_written: bool
) -> None:
    framework = build_with(rendezvous, "sh", "-c", script)
    assert find_places(framework) == ([] if is_written else [("missing-agent", MAIN)])
    assert is_written or find_places(inject(framework, InjectionOptions())[-1]) == []


def test_lint_agent_without_an_image_is_one_fault() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["containers"][0]["args"] = [". /mnt/frameworkbarrier/injector.sh"]
    spec["initContainers"] = [{"name": "barrier"}]
    assert find_places(framework) == [("pod-template", f"{SPEC}.initContainers[0].image")]


def test_lint_wrapper_without_an_installer_is_found() -> None:
    framework = build_with(WRAPPER, "train")
    spec = get_spec([framework])
    spec["initContainer"] = spec.pop("initContainers")
    found = find_one(framework)
    assert (found.rule, found.path) == ("missing-agent", MAIN)
    assert "starts /mnt/frameworkbarrier/agent/rendezvous.pyz" in found.message


@pytest.mark.parametrize("volume", [{"hostPath": {"path": "/srv/agents"}}, None])
def test_lint_wrapper_of_a_host_path_or_of_the_image_is_accepted(
    volume: dict[str, Any] | None,
) -> None:
    framework = build_with(WRAPPER, "train")
    spec = get_spec([framework])
    del spec["initContainers"]
    if volume:
        spec["volumes"][0] = {"name": spec["volumes"][0]["name"], **volume}
    else:
        spec["containers"][0]["command"][1] = "/opt/agent/rendezvous.pyz"
    assert find_places(framework) == []


def test_lint_installer_with_another_image_name_is_recognized_by_its_words() -> None:
    framework = build_with(WRAPPER, "train")
    get_spec([framework])["initContainers"][0]["image"] = "mirror/agent:1"
    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["installs"], "write `install`"),
        (["wacth"], "write `watch`"),
        ([], "write render, watch, install or `run -- COMMAND` (docs/rendezvous.md)"),
        (["watch", "--slot", "8"], "write render, watch, install or `run -- COMMAND`"),
    ],
)
def test_lint_unknown_words_of_the_agent_are_found(words: list[str], fix: str) -> None:
    framework = build_with(INIT, "train")
    get_agent(framework, INIT)["args"] = words
    found = [f for f in lint(framework, LintOptions()) if f.rule == "agent-settings"]
    assert [f.path for f in found] == [f"{SPEC}.initContainers[1].{'args' if words else 'command'}"]
    assert found[0].fix.startswith(fix)


@pytest.mark.parametrize(
    "command",
    [
        ["framework-rendezvous", "render"],
        ["sh", "-c", "sleep 1; exec framework-rendezvous render"],
        ["/bin/framework-rendezvous", "render", "--slots", "$(SLOTS)"],
    ],
)
def test_lint_agent_with_its_own_command_is_accepted(command: list[str]) -> None:
    framework = build_with(INIT, "train")
    agent = get_agent(framework, INIT)
    del agent["args"]
    agent["command"] = command
    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FB_ON_CHANGE", "restrat", "FB_ON_CHANGE='restrat': it is not one of notify, restart"),
        ("FB_PORTS", "worker=70000", "FB_PORTS='worker=70000'"),
        ("FB_PORTS", "workr=2222", "FB_PORTS: the gang has no role 'workr'"),
        ("FB_ROLES", "trainer=worker", "FB_ROLES: the gang has no role 'trainer'"),
        ("FB_SLOT", "8", "FB_SLOT: there is no such setting"),
        ("FB_FORMATS", "openmp", "FB_FORMATS: openmp is not a built-in format"),
        ("FB_WORKER_PORT", "none", "FB_WORKER_PORT='none'"),
        ("FB_TIMEOUT_SEC", "10m", "FB_TIMEOUT_SEC='10m': it is not a number of seconds"),
    ],
)
@pytest.mark.parametrize("rendezvous", [SIDECAR, WRAPPER])
def test_lint_settings_that_the_rendezvous_agent_refuses_are_found(
    name: str, value: str, message: str, rendezvous: Rendezvous
) -> None:
    found = find_one(build_with(rendezvous, "train", env={name: value}))
    kind, index = PLACES[rendezvous]
    assert (found.rule, found.path) == ("agent-settings", f"{SPEC}.{kind}[{index}].env")
    assert found.message.startswith(message)
    assert found.fix


def test_lint_faulty_flag_of_the_agent_is_found_in_its_words() -> None:
    framework = build_with(INIT, "train")
    get_agent(framework, INIT)["args"] = ["render", "--slots=many"]
    found = find_one(framework)
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
def test_lint_settings_that_may_be_right_are_accepted(env: dict[str, Any]) -> None:
    assert find_places(build_with(SIDECAR, "train", env=env)) == []


@pytest.mark.parametrize(
    ("name", "value", "message", "fix"),
    [
        (
            *("BARRIER_CHECK_INTERVAL_SEC", "1"),
            "$BARRIER_CHECK_INTERVAL_SEC is '1': the barrier ends with 210",
            "set it to a whole number at least 5, or unset it",
        ),
        (
            *("BARRIER_REQUIRE", "worker=running"),
            "$BARRIER_REQUIRE: worker=running in a Pod of role worker waits for itself",
            "ask for worker=dns, or leave it out",
        ),
        (
            *("BARRIER_REQUIRE", "workr=tcp:22"),
            "BARRIER_REQUIRE: workr=tcp:22 names a role that this gang does not have",
            "its roles are: worker",
        ),
        (
            *("BARRIER_EXPECT", "worker:2", "$BARRIER_EXPECT: "),
            "write it like ps=1,worker=4, or unset it",
        ),
    ],
)
def test_lint_settings_that_the_barrier_refuses_are_found(
    name: str, value: str, message: str, fix: str
) -> None:
    found = find_one(build_with(NONE, "train", env={name: value}))
    assert (found.rule, found.path) == ("agent-settings", f"{SPEC}.initContainers[0].env")
    assert found.message.startswith(message)
    assert found.fix == fix


def test_lint_number_of_gpus_in_no_digits_of_ascii_is_a_finding() -> None:
    framework = build_with(WRAPPER, "torchrun", resources={"limits": {"nvidia.com/gpu": "²"}})
    path = f"{MAIN}.resources.limits[nvidia.com/gpu]"
    assert find_places(framework) == [("pod-template", path)]


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
    framework = build_with(WRAPPER, *words, **GPUS)
    found = find_one(framework)
    assert (found.rule, found.path) == ("missing-slots", f"{MAIN}.env")
    assert '{name: FB_SLOTS, value: "8"}' in found.fix
    add_env(framework, WRAPPER, FB_SLOTS="8")
    assert find_places(framework) == []


@pytest.mark.parametrize(
    ("rendezvous", "words", "env"),
    [
        (WRAPPER, "python3 /app/jax.py", {}),
        (WRAPPER, "python3 /app/train.py --launcher torchrun", {}),
        (WRAPPER, "torchrun --nproc-per-node=gpu /app/train.py", {}),
        (WRAPPER, "torchrun --nproc_per_node 8 /app/train.py", {}),
        (WRAPPER, "torchrun /app/train.py", {"FB_TORCH_NPROC": "gpu"}),
        (WRAPPER, "mpirun -H a,b train", {}),
        (WRAPPER, "mpirun --map-by ppr:8:node train", {}),
        (WRAPPER, "mpirun train", {"FB_SLOTS": "1"}),
        # Without the agent's variables, torchrun has its own.
        (SIDECAR, "torchrun train.py", {}),
    ],
)
def test_lint_launcher_whose_processes_are_counted_is_accepted(
    rendezvous: Rendezvous, words: str, env: dict[str, str]
) -> None:
    assert find_places(build_with(rendezvous, *words.split(), env=env, **GPUS)) == []


def test_lint_slots_of_the_workers_are_asked_for_where_mpirun_runs() -> None:
    framework = build_with(WRAPPER, "mpirun", "train")
    worker = copy.deepcopy(framework["spec"]["taskRoles"][0])
    worker["task"]["pod"]["spec"]["containers"][0] |= {"command": ["sshd"], **GPUS}
    framework["spec"]["taskRoles"].append(worker | {"name": "other"})
    assert find_places(framework) == [("missing-slots", f"{MAIN}.env")]


@pytest.mark.parametrize(
    ("policy", "retries", "is_found"),
    [
        (None, 0, True),
        ({}, 0, True),
        ({"minSucceededTaskCount": 1}, 0, True),
        ({"minFailedTaskCount": 0}, 3, True),
        ({"minFailedTaskCount": 1}, 0, False),
        # The user wrote that no failure counts.
        ({"minFailedTaskCount": -1}, 0, False),
        # A failure is always retried.
        (None, -1, False),
        (None, -2, False),
    ],
)
def test_lint_gang_whose_failures_count_nothing_is_found(
    policy: dict[str, int] | None, retries: int, *, is_found: bool
) -> None:
    framework = build_with(SIDECAR, "train")
    role = framework["spec"]["taskRoles"][0]
    role["frameworkAttemptCompletionPolicy"] = policy
    role["task"]["retryPolicy"]["maxRetryCount"] = retries
    path = "spec.taskRoles[0].frameworkAttemptCompletionPolicy.minFailedTaskCount"
    assert find_places(framework) == ([("uncounted-failures", path)] if is_found else [])


def test_lint_failures_that_another_role_counts_are_enough() -> None:
    framework = build_with(SIDECAR, "train")
    server = copy.deepcopy(framework["spec"]["taskRoles"][0])
    del server["frameworkAttemptCompletionPolicy"]
    framework["spec"]["taskRoles"].append(server | {"name": "ps"})
    assert find_places(framework) == []


def test_lint_batch_without_agents_may_succeed_with_failures() -> None:
    assert find_places(build(frameworkAttemptCompletionPolicy={})) == []
