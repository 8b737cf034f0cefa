"""Remote commands as their users see them: ``rsh`` against the agents of workers, as processes."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rendezvous.volume.install import install
from tests.rendezvous.agents import Publisher, run_agent
from tests.rendezvous.remotes import Team, get_worker_address, is_alive, open_team, write_secrets
from tests.support.machine.oldpython import find_old_python
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

HOST = get_worker_address(0)
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def team(
    api: Access,
    gang_numbers: Iterator[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Team]:
    publisher = Publisher(api.open_http(), f"team{next(gang_numbers)}")
    with open_team(api, publisher, tmp_path_factory.mktemp("team"), GREETING="hello") as team:
        yield team


@pytest.mark.parametrize(
    ("words", "code", "output", "errors"),
    [
        (("echo", "hello"), 0, "hello\n", ""),
        # As with ssh, the shell there sees the words as one text.
        (("echo", "$((1 + 1));", "echo three >&2"), 0, "2\n", "three\n"),
        (("exit", "7"), 7, "", ""),
        (("kill -TERM $$",), 143, "", ""),
        (("cat",), 0, "given", ""),
        (("printf", "'%s' \"$GREETING\""), 0, "hello", ""),
        (("printf '\\377' | od -An -tx1",), 0, " ff\n", ""),
    ],
)
def test_command_has_streams_and_exit_code(
    team: Team, words: tuple[str, ...], code: int, output: str, errors: str
) -> None:
    assert team.run(HOST, *words, given=b"given") == (code, output, errors)


def test_command_has_the_variables_of_a_login_and_of_the_container(team: Team) -> None:
    code, output, _ = team.run(HOST, 'echo "$USER $LOGNAME $HOME $FC_TASK_INDEX"; pwd')
    login, directory = output.splitlines()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    # $HOME is one of the container.
    assert (code, login, directory) == (0, f"{user} {user} /nonexistent 0", "/")


def test_unknown_program_is_the_shells_fault(team: Team) -> None:
    code, _, errors = team.run(HOST, "no-such-program")
    assert (code, "no-such-program" in errors) == (127, True)


def test_large_streams_pass_unchanged_in_both_directions(team: Team) -> None:
    given = os.urandom(3 * MIB)
    with team.open(HOST, "tee /dev/stderr") as process:
        output, errors = process.communicate(given)
    assert process.returncode == 0
    assert output == given
    assert errors == given


def test_output_that_nobody_reads_stops_the_command_and_signals_still_arrive(team: Team) -> None:
    mark = team.root / "mark"
    script = f"trap 'touch {mark}; exit 3' TERM; head -c 100000000 /dev/zero & wait"
    with team.open(HOST, script) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGTERM)
        wait_until(mark.exists)
        process.kill()


def test_input_that_nobody_reads_does_not_hold_up_a_signal(team: Team) -> None:
    with team.open(HOST, "trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        os.set_blocking(process.stdin.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(process.stdin.fileno(), bytes(65536))
        process.send_signal(signal.SIGUSR1)
        assert process.wait(HANG_SECONDS) == 5
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            process.stdin.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signal_reaches_the_process_group(team: Team, number: signal.Signals) -> None:
    script = f"trap 'echo got; exit 9' {int(number)}; echo ready; while :; do sleep 0.05; done"
    with team.open(HOST, script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"got\n"
        assert process.wait(HANG_SECONDS) == 9


def test_second_signal_ends_the_client_of_a_command_that_ignores_them(team: Team) -> None:
    script = "trap '' INT TERM; echo $$; while :; do sleep 0.05; done"
    with team.open(HOST, script) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        # Whichever of the two it took second.
        assert process.wait(HANG_SECONDS) in {128 + signal.SIGINT, 128 + signal.SIGTERM}
    # It ignores SIGTERM, too: SIGKILL follows after the grace period.
    wait_until(lambda: not is_alive(pid))


def test_processes_of_a_client_that_was_killed_end(team: Team) -> None:
    with team.open(HOST, "sleep 100000 & echo $! $$; wait") as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        process.kill()
    for pid in pids:
        wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]  # a default is not inferred


def test_client_ends_with_the_command_although_a_daemon_holds_its_streams(team: Team) -> None:
    code, output, _ = team.run(HOST, "setsid sleep 100000 & echo $!")
    pid = int(output)
    try:
        assert (code, is_alive(pid)) == (0, True)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_reader_that_leaves_ends_the_command(team: Team) -> None:
    with team.open(HOST, "yes") as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(HANG_SECONDS) == 128 + signal.SIGPIPE


def test_closed_streams_of_the_client_are_no_fault(team: Team) -> None:
    words = ["python3", "-m", "rendezvous", "rsh", HOST, "--", "cat; echo done"]
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *words],
        env={**team.build_env("launcher", 0)},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, b"done\n")


def test_many_commands_run_at_once(team: Team) -> None:
    barrier = team.root / "all"
    script = f"until [ -e {barrier} ]; do sleep 0.05; done; echo "
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(team.open(HOST, f"echo up; {script} {number}"))
            for number in range(12)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
        barrier.touch()
        outputs = [process.communicate()[0] for process in processes]
    assert outputs == [f"{number}\n".encode() for number in range(12)]


def test_worker_is_found_by_the_name_of_its_pod(team: Team) -> None:
    name = f"{team.publisher.framework}-worker-0"
    for host in (name, f"{name}.{team.publisher.framework}.default.svc"):
        assert team.run(host, "echo $FC_TASKROLE_NAME")[:2] == (0, "worker\n")


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.9.77", "no member of the gang has this name or address"),
        ("nobody", "no member of the gang has this name or address"),
    ],
)
def test_host_that_is_not_there_is_an_error_after_the_time(
    team: Team, host: str, text: str
) -> None:
    code, output, errors = team.run(host, "true", flags=("--rsh-timeout-sec", "0.3"))
    assert (code, output) == (255, "")
    assert f"rendezvous: error: rsh: {host}: {text}, for 0.3 s" in errors


def test_command_that_is_too_long_is_an_error(team: Team) -> None:
    words = ["x" * 120_000, "y" * 20_000]
    code, _, errors = team.run(HOST, *words)
    assert code == 255
    # It is not tried again until the time is over.
    assert f"rsh: {HOST}: the command has more than 131071 bytes\n" in errors


def test_client_without_the_key_says_where_to_mount_it(team: Team) -> None:
    code, _, errors = team.run(HOST, "true", FB_GANG_KEY_FILE="")
    assert code == 210
    assert "mount the Secret NAME-gang-key at /var/run/frameworkbarrier" in errors


def test_key_of_another_attempt_is_refused_by_its_reader(team: Team) -> None:
    key = write_secrets(team.root / "other", "1_other")
    code, _, errors = team.run(HOST, "true", FB_GANG_KEY_FILE=str(key))
    assert (code, "is of attempt 1_other, not of" in errors) == (210, True)


def test_script_is_called_as_ssh_is(team: Team, tmp_path: Path) -> None:
    install(str(tmp_path))
    script = tmp_path / "agent" / "kubexec.sh"
    link = tmp_path / "ssh"
    link.symlink_to(script)
    for program, options in ((script, []), (link, ["-x", "-o", "A=b", "-p", "22", "-l", "root"])):
        ran = subprocess.run(
            [str(program), *options, f"root@{HOST}", "echo", "'a  b'"],
            env=team.build_env("launcher", 0),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "a  b\n", "")


def test_client_waits_for_a_worker_that_is_not_ready(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    team = Team(api, open_gang(), tmp_path, 1)
    team.publish()
    team.render()
    with team.open(HOST, "echo there") as process:
        env = {**team.build_env("worker", 0), "FB_RSH": "on"}
        with run_agent(env, "run", "--", "sleep", "100000"):
            output, errors = process.communicate(b"")
    assert (process.returncode, output, errors) == (0, b"there\n", b"")


def test_end_of_the_worker_ends_client_and_command(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    with open_team(api, open_gang(), tmp_path) as team:
        with team.open(HOST, "echo $$; sleep 100000") as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            team.workers[0].signal(signal.SIGTERM)
            assert team.workers[0].wait() == 143
            _, errors = process.communicate()
        assert process.returncode == 255
        assert f"error: rsh: {HOST}: the connection ended before the command did" in errors.decode()
        wait_until(lambda: not is_alive(pid))


def test_port_that_is_taken_ends_the_agent_with_the_reason(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    team = Team(api, open_gang(), tmp_path, 1)
    team.publish()
    with socket.create_server((HOST, team.port)):
        env = {**team.build_env("worker", 0), "FB_RSH": "on"}
        with run_agent(env, "run", "--", "sleep", "100000") as agent:
            assert agent.wait() == 1
    assert "FB_RSH_SERVER_PORT: cannot serve remote commands" in agent.text
    assert "choose another port" in agent.text


@pytest.mark.slow
def test_both_ends_run_on_the_oldest_python(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    python = find_old_python()
    install(str(tmp_path / "installed"))
    agent = (python, str(tmp_path / "installed" / "agent" / "rendezvous.pyz"))
    team = Team(api, open_gang(), tmp_path, 1)
    team.publish()
    team.render()
    env = {**team.build_env("worker", 0), "FB_RSH": "on"}
    with run_agent(env, "run", "--", "sleep", "100000", command=agent):
        ran = subprocess.run(
            [*agent, "rsh", HOST, "--", "cat; exit 3"],
            input=bytes(range(256)) * 1000,
            env=team.build_env("launcher", 0),
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (3, b"")
    assert ran.stdout == bytes(range(256)) * 1000
