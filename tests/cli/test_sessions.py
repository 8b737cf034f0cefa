"""Whole sessions of the command line: Ctrl-C, a controller that is killed, logs, the background."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import FRAMEWORKS, Object
from tests.support.servers.commandline import call_in_process
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

LIMIT = f"{HANG_SECONDS}s"

ROOT = Path(__file__).parents[2]
BARRIER = """\
          initContainers:
          - name: barrier
            image: frameworkbarrier/framework-barrier
            volumeMounts: [{name: v, mountPath: /mnt/frameworkbarrier}]
          volumes: [{name: v, emptyDir: {}}]
"""


def wait_for(path: Path) -> str:
    """Build a script that waits for a file."""
    return f"while ! test -e {path}; do sleep 0.1; done"


def build_role(
    name: str, count: int, script: str, *, barrier: bool = False, retries: int = 0
) -> str:
    return f"""\
  - name: {name}
    taskNumber: {count}
    frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
    task:
      retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {retries}}}
      pod:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 1
{BARRIER if barrier else ""}\
          containers:
          - {{name: main, image: busybox, command: [sh, -c, {script!r}]}}
"""


GPU = "resources: {limits: {nvidia.com/gpu: 1}}"


def add_to_container(role: str, fields: str) -> str:
    return role.replace("image: busybox", f"image: busybox, {fields}")


def add_before_barrier(role: str, script: str) -> str:
    """Add an init container before the barrier of a role."""
    key = "          initContainers:\n"
    container = f"{{name: hold, image: busybox, command: [sh, -c, {script!r}]}}"
    return role.replace(key, f"{key}          - {container}\n")


def write(path: Path, *roles: str, name: str = "gang") -> str:
    text = "".join(roles)
    path.write_text(
        "apiVersion: frameworkcontroller.microsoft.com/v1\nkind: Framework\n"
        f"metadata: {{name: {name}}}\nspec:\n  taskRoles:\n{text}"
    )
    return str(path)


def list_local(directory: Path, timeout: str = LIMIT) -> tuple[str, ...]:
    """Return the words that run a file on a local cluster in this directory."""
    return ("run", "--local", "--timeout", timeout, "--directory", str(directory))


def run_local(tmp_path: Path, *roles: str) -> tuple[int, str]:
    return call(*list_local(tmp_path / "state"), write(tmp_path / "f.yaml", *roles))


@contextmanager
def start(*arguments: str, **env: str) -> "Iterator[subprocess.Popen[str]]":
    """Run the command line; what still runs at the end of the block is killed."""
    program = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **env},
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


def call(*arguments: str, **env: str) -> tuple[int, str]:
    with start(*arguments, **env) as program:
        output = finish(program)
    return program.returncode, output


def call_here(*arguments: str, **env: str) -> tuple[int, str]:
    """Run a command that ends by itself in this process; it saves the start of a Python."""
    answer = call_in_process(*arguments, **env)
    return answer.code, answer.err + answer.out


def read_until(program: "subprocess.Popen[str]", pattern: str) -> str:
    """Read the program's output up to a line with the pattern; return all of it."""
    assert program.stdout is not None
    seen = ""
    for line in program.stdout:
        seen += line
        if re.search(pattern, line):
            return seen
    raise AssertionError(f"ended without {pattern!r}:\n{seen}")


def finish(program: "subprocess.Popen[str]") -> str:
    """Read the rest of the output; a program that does not end is killed and shown."""
    try:
        output, _ = program.communicate(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        # Shows where it hangs.
        program.send_signal(signal.SIGABRT)
        output, _ = program.communicate()
        pytest.fail(f"did not end:\n{output}")
    return output


def find_processes(marker: str) -> list[int]:
    """Find live processes with this text in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.usefixtures("hangup_by_default")
@pytest.mark.parametrize(
    ("number", "code"),
    keep_first(
        [
            (signal.SIGINT, ExitCode.INTERRUPTED),
            (signal.SIGTERM, ExitCode.TERMINATED),
            (signal.SIGHUP, ExitCode.HUNG_UP),
        ]
    ),
)
def test_run_when_interrupted_stops_the_framework_and_leaves_nothing(
    number: signal.Signals, code: ExitCode, tmp_path: Path
) -> None:
    seconds = f"8{os.getpid()}.{int(number)}"
    file = write(tmp_path / "f.yaml", build_role("worker", 2, f"exec sleep {seconds}"))
    with start(*list_local(tmp_path / "state"), file) as program:
        read_until(program, r"worker/[01] +Running")
        # Either may be the first; a Task that still waits would be named as the reason of the stop.
        read_until(program, r"worker/[01] +Running")
        # The line says that the container runs; its shell may not have become sleep yet.
        wait_until(lambda: len(find_processes(f"sleep\0{seconds}")) >= 2)
        program.send_signal(number)
        output = finish(program)
    assert program.returncode == code, output
    cause = "Ctrl-C" if number is signal.SIGINT else number.name
    assert re.search(rf"Framework gang: Stopped .*: stopped by {cause}\n", output)
    assert f"{cause}: stopping the Frameworks and waiting for their Pods" in output
    assert find_processes(f"sleep\0{seconds}") == []
    assert find_processes(str(tmp_path / "state")) == []


@pytest.mark.slow
def test_run_local_prints_at_once_the_export_for_another_shell(tmp_path: Path) -> None:
    state = tmp_path / "my state"
    file = write(tmp_path / "f.yaml", build_role("w", 1, "exec sleep 600"))
    with start(*list_local(state), file) as program:
        output = read_until(program, r"w/0 +Running")
        assert f"local cluster in {state}; to reach it from another shell:\n" in output
        (variable,) = re.findall(r"^  export KUBECONFIG='(.*)'$", output, re.MULTILINE)
        code, output = call("logs", "gang", "w/0", KUBECONFIG=variable)
        assert (code, output) == (
            0, "note: w/0: its log is empty: the container has printed nothing\n"
        )  # fmt: skip
        program.send_signal(signal.SIGINT)
        output = finish(program)
    assert program.returncode == ExitCode.INTERRUPTED, output


@pytest.mark.slow
def test_run_of_a_gang_that_crashes_again_and_again_says_so(tmp_path: Path) -> None:
    role = build_role("worker", 1, "exit 3").replace("Policy: Never", "Policy: Always")
    remedy = "exited with 3; restartPolicy is Always: write Never"
    file = write(tmp_path / "f.yaml", role)
    with start(*list_local(tmp_path / "state"), file) as program:
        output = read_until(program, remedy)
        program.send_signal(signal.SIGINT)
        output += finish(program)
    assert program.returncode == ExitCode.INTERRUPTED, output
    lines = [line for line in output.splitlines() if re.match(r" +[\d.]+s  worker/0 ", line)]
    restarts = [line for line in lines if remedy in line]
    # Not again at each restart. Whether the container runs when it is first seen is chance.
    shown = [line.partition("worker/0")[2] for line in restarts]
    assert shown
    assert len(shown) == len(set(shown)), output
    assert set(shown) <= {f"  {state}: main restarts, {remedy}" for state in ("Running", "Waiting")}
    # How often it has restarted depends on the time until the signal.
    assert re.search(rf"worker/0 +Stopped .* main: .*[1-9]\d* restarts?, {remedy}\n", output)


@pytest.mark.slow
def test_run_past_its_timeout_stops(tmp_path: Path) -> None:
    file = write(tmp_path / "f.yaml", build_role("w", 1, "exec sleep 600"))
    code, output = call(*list_local(tmp_path / "state", "2s"), file)
    assert code == ExitCode.TIMEOUT, output
    assert "timeout of 2 s passed: stopping" in output
    assert re.search(r"Framework gang: Stopped .*: stopped by --timeout", output)


@pytest.mark.slow
def test_run_that_is_stopped_has_the_reasons_of_the_wait(tmp_path: Path) -> None:
    # The first takes the only GPU and waits in its barrier for the second.
    stuck = add_to_container(build_role("gpu", 2, "true", barrier=True), GPU)
    started = tmp_path / "started"
    file = write(
        tmp_path / "f.yaml", build_role("worker", 2, f"touch {started}", barrier=True), stuck
    )
    with start(*list_local(tmp_path / "state"), "--gpus", "1", file) as program:
        # Both reasons stay; either may be the first.
        # Not one that has no address yet, before the one that waits.
        gang = r"worker/0 +.*barrier: the gang of 4 lacks gpu/(\d) \([^)]*nvidia.com/gpu"
        unschedulable = r"gpu/(\d) +Waiting: Unschedulable: .*nvidia.com/gpu"
        output = read_until(program, f"{gang}|{unschedulable}")
        missing = gang if re.search(unschedulable, output) else unschedulable
        output += read_until(program, missing)
        program.send_signal(signal.SIGINT)
        output += finish(program)
    assert program.returncode == ExitCode.INTERRUPTED, output
    (waiting,) = {*re.findall(unschedulable, output), *re.findall(gang, output)}
    table = output[output.index("Framework gang: Stopped") :]
    reason = f"the gang never started: 4 of 4 Tasks wait; gpu/{waiting}: Unschedulable"
    assert f"stopped by Ctrl-C; {reason}" in table
    stopped = rf"gpu/{waiting} +Stopped +0 +-\d+ +never started: Unschedulable: .*/gpu"
    assert re.search(stopped, table)
    assert re.search(r"worker/0 +Stopped +0 +-\d+ +never started: barrier: the gang", table)
    assert not started.exists()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["Waiting", "Running"])
def test_run_whose_controller_is_killed_completes_with_no_pod_wasted(
    moment: str, tmp_path: Path
) -> None:
    state, begin, end = (tmp_path / name for name in ("state", "begin", "end"))
    roles = [
        add_before_barrier(build_role(name, count, wait_for(end), barrier=True), wait_for(begin))
        for name, count in (("ps", 1), ("worker", 4))
    ]
    file = write(tmp_path / "f.yaml", *roles)
    if moment == "Running":
        begin.touch()
    with start(*list_local(state), file) as program:
        read_until(program, rf"worker/3 +{moment}")
        log = (state / "cluster.log").read_text()
        os.kill(int(re.findall(r"child_pid=(\d+)", log)[-1]), signal.SIGKILL)
        begin.touch()
        end.touch()
        output = finish(program)
    assert program.returncode == 0, output
    table = output[output.index("Framework gang: Succeeded") :]
    assert len(re.findall(r"(ps|worker)/\d +Succeeded +0 +0", table)) == 5
    assert len(list((state / "logs").iterdir())) == 5
    assert len(re.findall("child started", (state / "cluster.log").read_text())) == 2


@pytest.mark.slow
def test_run_of_a_gang_whose_plain_role_ends_early_passes_its_barrier(tmp_path: Path) -> None:
    worker = build_role("worker", 2, ". /mnt/frameworkbarrier/injector.sh", barrier=True)
    mounts = "volumeMounts: [{name: v, mountPath: /mnt/frameworkbarrier}]"
    setup = build_role("setup", 1, "true")
    code, output = run_local(tmp_path, setup, add_to_container(worker, mounts))
    assert code == 0, output


@pytest.mark.slow
def test_run_of_a_gang_with_a_late_retry_passes_its_barrier_again(tmp_path: Path) -> None:
    script = "test $FC_TASK_INDEX = 0 || { sleep 1; test $FC_TASK_ATTEMPT_ID -ge 1; }"
    role = build_role("worker", 2, script, barrier=True, retries=1)
    code, output = run_local(tmp_path, role)
    assert code == 0, output
    assert re.search(r"worker/0 +Succeeded +0 +0", output)
    assert re.search(r"worker/1 +Succeeded +1 +0", output)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which a background cluster is found."""
    home = tmp_path_factory.mktemp("home")
    env = {"XDG_RUNTIME_DIR": str(home), "KUBECONFIG": str(home / "config")}
    code, output = call("local", "up", "--detach", "--kubeconfig", env["KUBECONFIG"], **env)
    assert code == 0, output
    yield env
    code, output = call("local", "down", **env)
    assert (code, output) == (0, "stopped\n")
    code, output = call("local", "status", **env)
    assert code == ExitCode.FAILED, output


def test_local_status_prints_address_and_kubeconfig(cluster: dict[str, str]) -> None:
    code, output = call_here("local", "status", **cluster)
    assert code == 0
    assert re.search(r"local cluster at http://127\.0\.0\.1:\d+, process \d+, since ", output)
    assert f"export KUBECONFIG={cluster['KUBECONFIG']}\n" in output


def test_logs_of_a_cluster_ignore_an_unsafe_local_directory(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "frameworkbarrier").mkdir()
    (tmp_path / "frameworkbarrier").chmod(0o777)
    env = {**cluster, "XDG_RUNTIME_DIR": str(tmp_path)}
    code, output = call_here("logs", "absent", **env)
    assert code == ExitCode.FAILED, output
    assert "--directory" not in output


def test_local_up_twice_refuses(cluster: dict[str, str]) -> None:
    code, output = call("local", "up", **cluster)
    assert code == ExitCode.USAGE
    assert output.startswith("error: a local cluster runs already (process")
    assert "or start another with --directory DIR" in output


def test_run_in_a_namespace_that_is_missing_is_no_failed_training(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    code, output = call(
        "run", "-n", "absent", write(tmp_path / "f.yaml", build_role("w", 1, "true")), **cluster
    )
    assert code == ExitCode.USAGE, output
    assert "kubectl create namespace absent" in output


@pytest.mark.slow
def test_run_of_a_framework_that_exists_refuses_until_replace(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    file = write(tmp_path / "f.yaml", build_role("w", 1, "true"))
    assert call("run", file, **cluster)[0] == 0
    code, output = call("run", file, **cluster)
    assert code == ExitCode.USAGE
    assert (
        "a Framework 'gang' exists in namespace default: delete it (`framework delete gang"
        in output
    )
    assert call("run", "--replace", file, **cluster)[0] == 0


def test_run_of_a_task_with_a_stack_trace_names_its_cause_and_shows_the_end(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    script = "seq 1000 1100; echo KeyError: 7; exit 1"
    policy = "terminationMessagePolicy: FallbackToLogsOnError"
    role = add_to_container(build_role("w", 1, script), policy)
    # Else the controller may delete the Pod, and with it the log, before it is read.
    role = role.replace("    task:", "    completedPodPolicy: Retain\n    task:")
    code, output = call("run", "--replace", write(tmp_path / "f.yaml", role), **cluster)
    assert code == ExitCode.FAILED, output
    assert re.search(r"w/0 +Failed +0 +1 +main exited with 1; last output: KeyError: 7\n", output)
    *_, last = output.partition("last lines of container main:\n")
    assert last.split() == [*map(str, range(1087, 1101)), "KeyError:", "7"]


@pytest.mark.slow
def test_logs_of_a_running_task_follows_to_its_end(cluster: dict[str, str], tmp_path: Path) -> None:
    script = f"echo first; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo last"
    file = Path(write(tmp_path / "f.yaml", build_role("w", 2, script)))
    file.write_text(
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: logs}}\n---\n{file.read_text()}"
    )
    with start("run", "-n", "logs", "--replace", str(file), **cluster) as program:
        read_until(program, r"w/1 +Running")
        # A container that runs may have printed nothing yet.
        wait_until(lambda: "empty" not in read_logs("w/1", **cluster)[1])
        assert read_logs("w/1", **cluster) == (0, "first\n")
        with start("logs", "gang", "-f", "-n", "logs", **cluster) as follower:
            read_until(follower, r"\[w/1\] first")
            (tmp_path / "go").touch()
            assert "last" in finish(follower)
        output = finish(program)
    assert program.returncode == 0, output
    assert read_logs("w/0", **cluster) == (0, "first\nlast\n")


def read_logs(task: str, **cluster: str) -> tuple[int, str]:
    """Read the log of a Task of gang in the namespace logs."""
    return call_here("logs", "gang", task, "-n", "logs", **cluster)


def test_logs_of_an_unknown_framework_says_so(cluster: dict[str, str]) -> None:
    code, output = call_here("logs", "absent", **cluster)
    assert code == ExitCode.FAILED
    assert "no Framework 'absent' in namespace default" in output


@pytest.mark.slow
def test_logs_of_a_task_that_never_started_says_so(cluster: dict[str, str], tmp_path: Path) -> None:
    role = add_to_container(build_role("w", 1, "true"), GPU)
    with start("run", write(tmp_path / "f.yaml", role, name="never"), **cluster) as program:
        read_until(program, r"w/0 +Waiting: Unschedulable")
        program.send_signal(signal.SIGINT)
        assert "gang never started" in finish(program)
    code, output = call_here("logs", "never", **cluster)
    assert code == ExitCode.FAILED
    assert (
        "never has no Pod now, and none of its containers has started: `kubectl get events"
        in output
    )


@pytest.mark.slow
def test_run_of_a_deleted_framework_fails(cluster: dict[str, str], tmp_path: Path) -> None:
    file = write(tmp_path / "f.yaml", build_role("w", 1, "exec sleep 600"), name="doomed")
    with start("run", file, **cluster) as program:
        read_until(program, r"w/0 +Running")
        delete_framework("doomed", cluster["KUBECONFIG"])
        output = finish(program)
    assert program.returncode == ExitCode.FAILED, output
    assert "Framework doomed was deleted before it completed" in output


@pytest.mark.slow
def test_run_whose_stop_fails_ends_at_once(tmp_path: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "KUBECONFIG": str(tmp_path / "the config")}
    file = write(tmp_path / "f.yaml", build_role("w", 1, "exec sleep 600"))
    assert call("local", "up", "--detach", "--kubeconfig", env["KUBECONFIG"], **env)[0] == 0
    with start("run", file, **env) as program:
        read_until(program, r"w/0 +Running")
        _, output = call("local", "status", **env)
        assert f"export KUBECONFIG='{env['KUBECONFIG']}'\n" in output
        assert call("local", "down", **env)[0] == 0
        shown = read_until(program, r"alert +")
        program.send_signal(signal.SIGINT)
        shown += finish(program)
    assert program.returncode == ExitCode.UNREACHABLE, shown
    assert "gang could not be stopped: " in shown
    assert "ends at once: Frameworks that were not stopped continue to run" in shown
    assert "ssl:" not in shown


def delete_framework(name: str, kubeconfig: str) -> None:
    async def delete() -> Object | None:
        config = load_kube_config(None, kubeconfig, {})
        async with KubeClient(config, user_agent="test", clock=SystemClock()) as client:
            return await client.delete(FRAMEWORKS, "default", name, propagation="Foreground")

    asyncio.run(delete())


@pytest.mark.slow
def test_run_whose_output_is_closed_continues_to_the_end(tmp_path: Path) -> None:
    file = write(tmp_path / "f.yaml", build_role("w", 1, "sleep 0.5; exit 3"))
    with start(*list_local(tmp_path / "state"), file) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(timeout=HANG_SECONDS) == ExitCode.FAILED
