"""The requests of scalers in the launcher's agent: decisions, scripts, restarts, processes."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.agent.report import LineReporter
from framework.api import constants
from framework.api.roster import Roster, fingerprint_uid
from framework.api.scalerequest import ScaleRequest, ScaleResult, decode_result, encode_request
from rendezvous.core.scaling import (
    Conclude,
    Record,
    Report,
    StartScript,
    Step,
    Wait,
    decide_request,
    list_hosts,
    render_argument,
)
from rendezvous.process.children import Children
from rendezvous.process.processes import list_processes_naming
from rendezvous.process.scaler import Scaler
from rendezvous.volume.records import Records
from rendezvous.volume.writer import Writer
from tests.rendezvous.agents import Publisher, run_agent
from tests.rendezvous.gangs import build_gang, build_role, build_roster
from tests.support.fakes.agentclock import SkippingClock
from tests.support.machine.processes import is_running
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS, wait_until

REQUEST = ScaleRequest(
    uid="u1",
    is_scale_in=True,
    role="worker",
    indexes=(1, 2),
    hosts=("10.0.0.3",),
    slots=4,
    script="/leave.sh",
    env=(),
    timeout_seconds=60,
)
OUT = REQUEST._replace(is_scale_in=False)
PLAIN = REQUEST._replace(script="")
# Processes that name a worker are looked for on the whole machine: other tests have other names.
JOB = f"job-{os.getpid()}"
LEFT = build_gang(1)
ALL = build_gang(3)


# --- The decision --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "record", "roster", "busy", "seconds", "step"),
    [
        (REQUEST, Record(), None, [], 0, StartScript(REQUEST)),
        (REQUEST, Record(), ALL, [], 0, Wait("worker/1, worker/2 are still in the host files")),
        (REQUEST, Record(), build_gang(2), [], 0, Wait("worker/1 is still in the host files")),
        (
            REQUEST,
            Record(),
            LEFT,
            ["ssh to job-worker-1"],
            59.9,
            Wait("processes of leaving workers run: ssh to job-worker-1"),
        ),
        (REQUEST, Record(), LEFT, [], 0, StartScript(REQUEST)),
        (PLAIN, Record(), LEFT, [], 0, Conclude(ScaleResult("u1", 0))),
        (OUT, Record(), LEFT, [], 0, Wait("worker/1, worker/2 are not yet in the host files")),
        (OUT, Record(), ALL, [], 0, StartScript(OUT)),
        (
            PLAIN,
            Record(),
            ALL,
            [],
            60,
            Conclude(
                ScaleResult("u1", -1, "after 60 s worker/1, worker/2 are still in the host files")
            ),
        ),
        (REQUEST, Record("u0"), LEFT, [], 0, StartScript(REQUEST)),
        (
            REQUEST,
            Record("u1"),
            LEFT,
            [],
            0,
            Conclude(
                ScaleResult(
                    "u1",
                    -1,
                    "the agent was restarted while the script ran, and does not run it again",
                )
            ),
        ),
        (
            REQUEST,
            Record("u1", ScaleResult("u1", 3, "x")),
            ALL,
            [],
            999,
            Report(ScaleResult("u1", 3, "x")),
        ),
    ],
    ids=[
        "in-no-generation",
        "in-members",
        "in-one-member",
        "in-processes",
        "in-script",
        "in-no-script",
        "out-no-members",
        "out-script",
        "late",
        "another-before",
        "interrupted",
        "reported-again",
    ],
)
def test_step_of_a_request(
    request_: ScaleRequest,
    record: Record,
    roster: Roster | None,
    busy: list[str],
    seconds: float,
    step: Step,
) -> None:
    assert decide_request(request_, record, roster, busy, seconds) == step


def test_long_lists_are_cut_in_messages() -> None:
    request = REQUEST._replace(indexes=tuple(range(9)))
    step = decide_request(request, Record(), build_gang(9), [], 0)
    assert step == Wait("worker/0, worker/1, worker/2 and 6 more are still in the host files")
    busy = [f"ssh to h{number}" for number in range(5)]
    waiting = decide_request(request, Record(), None, busy, 0)
    assert isinstance(waiting, Wait)
    assert waiting.reason.endswith("ssh to h0, ssh to h1, ssh to h2 and 2 more")


def test_members_of_other_roles_are_not_counted() -> None:
    roster = build_roster(build_role("launcher", 3), build_role("worker", 1))
    assert decide_request(PLAIN, Record(), roster, [], 0) == Conclude(ScaleResult("u1", 0))


def test_argument_and_hosts_of_a_request() -> None:
    assert render_argument(REQUEST, "job") == "job-worker-1:4,job-worker-2:4"
    assert list_hosts(REQUEST, "job") == ("job-worker-1", "job-worker-2", "10.0.0.3")


# --- The program ---------------------------------------------------------------------------------


class Launcher:
    """A volume and the agents of a launcher, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.volume = directory / "volume"
        self.reports: list[ScaleResult] = []
        self.clock = SkippingClock()
        self.slots: dict[str, int] = {}
        Writer(str(self.volume)).prepare()
        self.start()

    def start(self) -> None:
        self.scaler = Scaler(
            JOB,
            Children(self.clock),
            Records(str(self.volume)),
            lambda text: self.reports.append(decode_result(text)),
            LineReporter("rendezvous", is_json=False),
            self.clock,
            self.slots,
        )

    def write(self, script: str) -> ScaleRequest:
        """Write a script; return the request that runs it."""
        path = self.directory / "script.sh"
        path.write_text(script)
        return REQUEST._replace(script=str(path), hosts=())

    def ask(self, request: ScaleRequest, roster: Roster = LEFT, reports: int = 1) -> ScaleResult:
        """Have a request carried out; return the newest result."""
        self.scaler.observe(encode_request(request))

        def is_reported() -> bool:
            self.scaler.turn(roster)
            return len(self.reports) >= reports

        wait_until(is_reported)
        return self.reports[-1]

    @property
    def runs(self) -> list[str]:
        path = self.directory / "runs"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def note(launcher: Launcher, code: int = 0) -> str:
    """A script that notes its argument and two variables."""
    return f'echo "$1 $A $0" >>{launcher.directory}/runs; echo hello; echo why >&2; exit {code}\n'


def test_script_gets_its_argument_and_variables(launcher: Launcher, capfd: Any) -> None:
    request = launcher.write(note(launcher))
    assert launcher.ask(request._replace(env=(("A", "$HOME `id`"),))) == ScaleResult("u1", 0)
    assert launcher.runs == [f"{JOB}-worker-1:4,{JOB}-worker-2:4 $HOME `id` {request.script}"]
    said = capfd.readouterr()
    assert "hello\nwhy\n" in said.out
    assert f"a scaler runs its script: {request.script}" in said.err


def test_script_gets_its_own_arguments_before_the_workers(launcher: Launcher) -> None:
    text = f'printf "%s|" "$@" >{launcher.directory}/runs\n'
    request = launcher.write(text)
    script = f"{request.script} --leave 'a b'"
    assert launcher.ask(request._replace(script=script)) == ScaleResult("u1", 0)
    assert launcher.runs == [f"--leave|a b|{JOB}-worker-1:4,{JOB}-worker-2:4|"]


def test_script_gets_the_slots_of_the_host_files(launcher: Launcher) -> None:
    """The job may have got other slots after the start of the launcher."""
    launcher.slots = {"worker": 2}
    launcher.start()
    assert launcher.ask(launcher.write(note(launcher))) == ScaleResult("u1", 0)
    assert launcher.runs[0].startswith(f"{JOB}-worker-1:2,{JOB}-worker-2:2 ")


def test_failure_of_a_script_has_the_end_of_its_output(launcher: Launcher) -> None:
    request = launcher.write("echo " + "x" * 5000 + "; echo the end; exit 7\n")
    result = launcher.ask(request)
    assert result.code == 7
    assert result.message.startswith("the script ended with 7: xxx")
    assert result.message.endswith("xxx\nthe end")
    assert len(result.message) < 500


def test_missing_script_is_a_failure(launcher: Launcher) -> None:
    result = launcher.ask(REQUEST._replace(script="/nonexistent/leave.sh", hosts=()))
    assert result.code in {2, 127}
    assert "/nonexistent/leave.sh" in result.message


def test_script_that_does_not_end_is_ended_with_its_processes(launcher: Launcher) -> None:
    pid_file = launcher.directory / "pid"
    request = launcher.write(f"sleep 1000 & echo $! >{pid_file}; wait\n")
    launcher.scaler.observe(encode_request(request))
    launcher.scaler.turn(LEFT)
    pid = int(wait_until(lambda: pid_file.exists() and pid_file.read_text().strip()))
    launcher.clock.sleep(request.timeout_seconds)
    assert launcher.ask(request) == ScaleResult("u1", 124, "the script did not end in 60 s")
    wait_until(lambda: not is_running(pid))


def test_script_without_a_thread_for_its_output_is_ended(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
        raise RuntimeError("can't start new thread")

    pid_file = launcher.directory / "pid"
    request = launcher.write(f"echo $$ >{pid_file}; exec sleep 1000\n")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    result = launcher.ask(request)
    assert (result.code, result.message) == (-1, "the script: can't start new thread")
    wait_until(lambda: not is_running(int(pid_file.read_text())))


def test_request_is_carried_out_once_and_reported_by_each_agent(launcher: Launcher) -> None:
    request = launcher.write(note(launcher))
    for reports in (1, 2, 3):
        assert launcher.ask(request, reports=reports) == ScaleResult("u1", 0)
        launcher.start()  # as after a kill of the agent
    assert len(launcher.runs) == 1
    assert launcher.ask(request._replace(uid="u2"), reports=4) == ScaleResult("u2", 0)
    assert len(launcher.runs) == 2


def test_script_that_an_earlier_agent_started_is_not_run_again(launcher: Launcher) -> None:
    Records(str(launcher.volume)).write_scaler(Record("u1"))
    launcher.start()
    request = launcher.write(note(launcher))
    result = launcher.ask(request)
    assert (result.code, launcher.runs) == (-1, [])
    assert "does not run it again" in result.message


def test_no_script_runs_before_its_uid_is_stored(launcher: Launcher) -> None:
    request = launcher.write(note(launcher))
    launcher.scaler.observe(encode_request(request))
    kept = launcher.volume.rename(launcher.volume.with_name("kept"))
    with pytest.raises(FileNotFoundError):
        launcher.scaler.turn(LEFT)
    kept.rename(launcher.volume)
    assert launcher.runs == []
    assert launcher.ask(request) == ScaleResult("u1", 0)


def test_result_is_stored_before_it_is_reported(launcher: Launcher) -> None:
    request = launcher.write(f"touch {launcher.directory}/runs\n")
    launcher.scaler.observe(encode_request(request))
    launcher.scaler.turn(LEFT)
    kept = launcher.volume.rename(launcher.volume.with_name("kept"))

    def is_refused() -> bool:
        try:
            launcher.scaler.turn(LEFT)
        except FileNotFoundError:
            return True
        return False

    wait_until(is_refused)
    assert launcher.reports == []
    assert launcher.scaler.has_open_scale_in
    kept.rename(launcher.volume)
    launcher.scaler.turn(LEFT)

    assert launcher.reports == [ScaleResult("u1", 0)]
    launcher.start()  # as after a kill of the agent
    assert launcher.ask(request, reports=2) == ScaleResult("u1", 0)


def test_uid_is_stored_before_the_script_starts(launcher: Launcher) -> None:
    request = launcher.write(f"cat {launcher.volume}/.scaler; exit 1\n")
    assert launcher.ask(request).message == "the script ended with 1: u1"


def test_request_that_is_cleared_ends_its_script(launcher: Launcher) -> None:
    started = launcher.directory / "started"
    request = launcher.write(f"touch {started}; exec sleep 1000\n")
    launcher.scaler.observe(encode_request(request))
    launcher.scaler.turn(LEFT)
    wait_until(started.exists)
    launcher.scaler.observe("")

    def is_ended() -> bool:
        launcher.scaler.turn(LEFT)
        return bool(launcher.reports)

    wait_until(is_ended)
    assert launcher.reports[-1].code == 124


def test_script_of_a_cleared_request_that_ignores_sigterm_is_killed(launcher: Launcher) -> None:
    started = launcher.directory / "started"
    text = f"trap '' TERM; echo $$ >{started}; while :; do sleep 1; done\n"
    request = launcher.write(text)._replace(timeout_seconds=3600)
    launcher.scaler.observe(encode_request(request))
    launcher.scaler.turn(LEFT)
    pid = int(wait_until(lambda: started.exists() and started.read_text().strip()))
    launcher.scaler.observe(encode_request(request._replace(uid="u2", script="")))
    launcher.scaler.turn(LEFT)
    launcher.clock.sleep(5)

    def is_ended() -> bool:
        launcher.scaler.turn(LEFT)
        return len(launcher.reports) == 2

    wait_until(is_ended)
    assert not is_running(pid)
    assert launcher.reports == [
        ScaleResult("u1", 124, "the request was removed while the script ran"),
        ScaleResult("u2", 0),
    ]


@pytest.mark.parametrize("stored", ["x", "e30=", "/" * 8])
def test_unreadable_request_is_reported_in_the_log_and_nothing_runs(
    launcher: Launcher, stored: str, capfd: Any
) -> None:
    launcher.scaler.observe(stored)
    launcher.scaler.turn(LEFT)
    assert launcher.reports == []
    assert not launcher.scaler.has_open_scale_in
    assert (
        "the request of a scaler in the attempt's ConfigMap cannot be read"
        in capfd.readouterr().err
    )


def test_acknowledgements_are_held_while_workers_leave(launcher: Launcher) -> None:
    held = [launcher.scaler.has_open_scale_in]
    request = launcher.write("exit 3\n")
    launcher.scaler.observe(encode_request(request))
    launcher.scaler.turn(ALL)
    held.append(launcher.scaler.has_open_scale_in)
    launcher.ask(request)
    held.append(launcher.scaler.has_open_scale_in)
    launcher.scaler.observe(encode_request(request._replace(uid="u2", is_scale_in=False)))
    held.append(launcher.scaler.has_open_scale_in)
    assert held == [False, True, False, False]


# --- The agent as a process ----------------------------------------------------------------------


@pytest.mark.local
def test_agent_of_the_launcher_holds_the_drain_until_the_script_has_run(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    publisher = open_gang()
    uid = publisher.create_pod("launcher", 0)
    launcher, workers = build_role("launcher", 1), build_role("worker", 2, first=10)
    members = (launcher.members[0]._replace(fingerprint=fingerprint_uid(uid)),)
    launcher = launcher._replace(members=members)
    env = publisher.build_env(api.url, api.token, tmp_path / "volume", "launcher", 0, uid)
    release, script = tmp_path / "release", tmp_path / "leave.sh"
    script.write_text(f'while [ ! -e {release} ]; do sleep 0.05; done; echo "$1" >{tmp_path}/ran\n')
    request = REQUEST._replace(indexes=(1,), hosts=("10.0.0.12",), script=str(script))
    request = request._replace(timeout_seconds=HANG_SECONDS)

    def read(name: str) -> str:
        return publisher.read_annotation("launcher", 0, name)

    publisher.publish(build_roster(launcher, workers))
    arguments = ("watch", "--scalers", "run", "--sidecar-end", "native", "--debounce-sec", "0")
    with run_agent(env, *arguments) as agent:
        wait_until(lambda: publisher.read_acknowledged("launcher", 0) == "1")
        publisher.tell_scaler(request)
        publisher.publish(build_roster(launcher, build_role("worker", 1, first=10), generation=2))
        agent.wait_for("a scaler runs its script")
        hosts = (tmp_path / "volume" / "current" / "hosts.horovod").read_text()
        assert hosts == "10.0.0.11:1\n"
        assert publisher.read_acknowledged("launcher", 0) == "1"
        assert read(constants.SCALER_RESULT_ANNOTATION) == ""
        release.touch()
        wait_until(lambda: publisher.read_acknowledged("launcher", 0) == "2")
        wait_until(lambda: read(constants.SCALER_RESULT_ANNOTATION) != "")
    assert decode_result(read(constants.SCALER_RESULT_ANNOTATION)) == ScaleResult("u1", 0)
    assert (tmp_path / "ran").read_text() == f"{publisher.framework}-worker-1:4\n"


# --- Processes of workers ------------------------------------------------------------------------


def test_processes_of_a_worker_are_found_by_its_name_or_address(grandchild: Any) -> None:
    program = Path(sys.executable).name
    address = f"10.9.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    grandchild("-o", "Batch=yes", f"{JOB}-worker-1", "hostname")
    grandchild(f"root@{address}")
    assert sorted(list_processes_naming([f"{JOB}-worker-1", address])) == [
        f"{program} to {JOB}-worker-1",
        f"{program} to root@{address}",
    ]
    # Not worker 10 for worker 1, and not the children of the agent: the training command.
    grandchild(f"{JOB}-worker-23")
    assert list_processes_naming([f"{JOB}-worker-2"]) == []
