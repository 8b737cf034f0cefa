"""The port of remote commands under attack: nothing runs without the key, and members get through.

The endpoint is that of a real agent. Each address of 127.0.0.0/8 stands for a Pod.
"""

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.process.children import Children
from rendezvous.rsh.admission import MAX_PENDING, PENDING_SECONDS
from rendezvous.rsh.channel import AuthenticationError, Channel, wait_for
from rendezvous.rsh.credentials import Credentials, load_credentials
from rendezvous.rsh.endpoint import Endpoint, Parts
from rendezvous.rsh.frames import (
    FROM_CLIENT,
    FROM_ENDPOINT,
    WINDOW_BYTES,
    Frame,
    Kind,
    Request,
    encode_frame,
    encode_refusal,
    encode_request,
    encode_stream,
)
from rendezvous.site.peers.generations import Roster
from tests.rendezvous.agents import Publisher
from tests.rendezvous.conftest import api, gang_numbers
from tests.rendezvous.remotes import LAUNCHER, Team, get_worker_address, open_team, write_secrets
from tests.support.machine.openfiles import count_open_files, limit_open_files
from tests.support.machine.processes import read_peak_bytes
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS, wait_until

T = TypeVar("T")

__all__ = ["api", "gang_numbers"]

pytestmark = pytest.mark.local

HOST = get_worker_address(0)
STRANGER = "127.0.66.6"
ATTACKERS = 300
MAX_FLOOD_BYTES = 32 * 1024 * 1024
CLOCK = AgentClock()


@pytest.fixture(scope="module")
def team(
    api: Access, gang_numbers: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    publisher = Publisher(api.open_http(), f"attacked{next(gang_numbers)}")
    with open_team(api, publisher, tmp_path_factory.mktemp("team")) as team:
        yield team


def dial(team: Team, source: str = LAUNCHER) -> socket.socket:
    return socket.create_connection((HOST, team.port), HANG_SECONDS, (source, 0))


def is_hung_up(connection: socket.socket) -> bool:
    connection.settimeout(HANG_SECONDS)
    with contextlib.suppress(ConnectionError):
        while connection.recv(4096):
            pass
    return True


def load(team: Team, key: Path | None = None, *, is_server: bool = False) -> Credentials:
    env = {"FB_GANG_KEY_FILE": str(key or team.key)}
    return load_credentials(team.attempt, env, is_server=is_server)


@contextlib.contextmanager
def open_channel(team: Team) -> Iterator[Channel]:
    """Connect as a member does that has the key, and then breaks the protocol."""
    channel = Channel(dial(team), load(team), FROM_ENDPOINT, is_server=False)
    try:
        channel.shake_hands(CLOCK.monotonic() + HANG_SECONDS, CLOCK)
        yield channel
    finally:
        channel.close()


def ask(channel: Channel, data: bytes) -> list[Frame]:
    """Send bytes and read to the end."""
    channel.send(data)
    frames: list[Frame] = []
    while True:
        channel.flush()
        frames += channel.receive()
        if channel.is_ended:
            return frames
        if not channel.has_more:
            deadline = CLOCK.monotonic() + HANG_SECONDS
            wait_for(channel.fileno(), channel.events, deadline, CLOCK)


def build_request(team: Team, command: str = "true") -> Request:
    return Request(team.attempt, "worker", 0, command.encode())


def count_files(team: Team) -> int:
    return count_open_files(team.workers[0].process.pid)


def test_client_with_another_key_runs_nothing(team: Team) -> None:
    mark = team.root / "wrong-key"
    key = write_secrets(team.root / "wrong", team.attempt)
    code, _, errors = team.run(HOST, f"touch {mark}", FB_GANG_KEY_FILE=str(key))
    assert code == 255
    assert f"rsh: {HOST}: it does not have the gang key of this attempt" in errors
    assert not mark.exists()
    team.workers[0].wait_for(f"a client at {LAUNCHER} does not have the gang key")


def test_client_that_shows_no_certificate_is_not_listened_to(team: Team) -> None:
    mark = team.root / "no-certificate"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with dial(team) as connection, context.wrap_socket(connection) as wrapped:
        # With TLS 1.3, the client learns of the refusal after it has sent its request.
        with contextlib.suppress(OSError):
            wrapped.sendall(encode_request(build_request(team, f"touch {mark}")))
        with contextlib.suppress(OSError):
            assert wrapped.recv(1) == b""
    team.workers[0].wait_for("PEER_DID_NOT_RETURN_A_CERTIFICATE")
    assert not mark.exists()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2])
def test_older_versions_of_tls_are_refused(team: Team, version: ssl.TLSVersion) -> None:
    context = load(team).context
    context.minimum_version = context.maximum_version = version
    with dial(team) as connection, pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        context.wrap_socket(connection)


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", bytes(70_000), b"\x16\x03\x01\xff\xff" * 20_000],
)
def test_bytes_that_are_no_handshake_end_the_connection(team: Team, data: bytes) -> None:
    with dial(team) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        assert is_hung_up(connection)


def test_client_sends_nothing_to_an_endpoint_with_another_key(team: Team) -> None:
    key = write_secrets(team.root / "impostor", team.attempt)
    seen: list[object] = []
    address = get_worker_address(4)

    def pose(listener: socket.socket) -> None:
        connected, _ = listener.accept()
        credentials = load(team, key, is_server=True)
        channel = Channel(connected, credentials, FROM_CLIENT, is_server=True)
        try:
            channel.shake_hands(CLOCK.monotonic() + HANG_SECONDS, CLOCK)
            seen.append(channel.receive())
        except AuthenticationError as e:
            seen.append(type(e))
        finally:
            channel.close()

    team.publish(2, count=5)
    team.render()
    with socket.create_server((address, team.port)) as listener:
        thread = threading.Thread(target=pose, args=(listener,))
        thread.start()
        code, _, errors = team.run(address, "secret command")
        thread.join(HANG_SECONDS)
    assert (code, "does not have the gang key" in errors) == (255, True)
    assert seen == [AuthenticationError]


def test_recorded_connection_that_is_sent_again_runs_nothing(team: Team) -> None:
    mark = team.root / "replayed"
    incoming, outgoing, sent = ssl.MemoryBIO(), ssl.MemoryBIO(), []
    client = load(team).context.wrap_bio(incoming, outgoing)
    with dial(team) as connection:

        def exchange(step: Callable[[], T]) -> T:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    sent.append(outgoing.read())
                    connection.sendall(sent[-1])
                    incoming.write(connection.recv(65536))

        exchange(client.do_handshake)
        client.write(encode_request(build_request(team, f"echo ran >>{mark}")))
        # STARTED, then EXITED.
        answer = b""
        while len(answer) < 9:
            answer += exchange(lambda: client.read(100))
    assert answer == encode_frame(Kind.STARTED) + encode_frame(Kind.EXITED, b"\0")
    with dial(team) as connection:
        with contextlib.suppress(ConnectionError):
            for part in sent:
                connection.sendall(part)
        assert is_hung_up(connection)
    assert mark.read_text() == "ran\n"


def test_silent_connections_hold_no_member_up_and_are_bounded(team: Team) -> None:
    before = count_files(team)
    with limit_open_files(4 * ATTACKERS), contextlib.ExitStack() as stack:
        for _ in range(ATTACKERS):
            stack.enter_context(dial(team, "127.0.0.1"))
        # Two descriptors for each: that of its thread, and that of the list.
        wait_until(lambda: count_files(team) <= before + 2 * MAX_PENDING + 8)
        assert team.run(HOST, "echo", "through")[:2] == (0, "through\n")
    # The agent's own connections come and go.
    wait_until(lambda: count_files(team) <= before + 3)


@pytest.mark.slow
def test_connections_without_a_request_end_in_time(team: Team) -> None:
    with dial(team) as silent, open_channel(team) as channel:
        assert is_hung_up(silent)
        assert ask(channel, b"") == []


def test_address_that_is_not_of_a_member_is_hung_up_on(team: Team) -> None:
    with dial(team, STRANGER) as connection:
        assert is_hung_up(connection)
    team.workers[0].wait_for(f"refused connections from {STRANGER}")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x01\xff\xff\xff" + bytes(100_000), "REQUEST has 16777215 bytes"),
        (b"\x63\x00\x00\x00", "kind 99 is not expected"),
        (encode_frame(Kind.INPUT, b"x"), "the first frame is not a request"),
        (encode_frame(Kind.REQUEST, b"[" * 1000 + b"\ntrue"), "is not JSON"),
    ],
)
def test_member_that_breaks_the_protocol_is_told_and_hung_up_on(
    team: Team, data: bytes, text: str
) -> None:
    with open_channel(team) as channel:
        (frame,) = ask(channel, data)
    assert frame.kind is Kind.REFUSED
    assert text in frame.content.decode()


def test_input_beyond_the_window_ends_the_command(team: Team) -> None:
    mark = team.root / "window"
    request = encode_request(build_request(team, f"trap 'touch {mark}; exit 1' TERM; sleep 1000"))
    with open_channel(team) as channel:
        ask(channel, request + encode_stream(Kind.INPUT, bytes(2 * WINDOW_BYTES)))
    assert team.run(HOST, "echo", "alive")[:2] == (0, "alive\n")


@pytest.mark.parametrize("change", [{"attempt": "9_other"}, {"index": 1}, {"role": "launcher"}])
def test_request_for_another_task_or_attempt_is_refused(
    team: Team, change: dict[str, object]
) -> None:
    request = build_request(team)._replace(**change)  # type: ignore[arg-type]  # fields of the case
    with open_channel(team) as channel:
        (frame,) = ask(channel, encode_request(request))
    assert frame.kind is Kind.REFUSED
    assert b"not the Task that is meant" in frame.content


def test_refused_requests_keep_no_files_open(team: Team) -> None:
    request = encode_request(build_request(team)._replace(index=1))
    before = count_files(team)
    for _ in range(8):
        with open_channel(team) as channel:
            assert ask(channel, request)[0].kind is Kind.REFUSED
    # The agent's own connections come and go.
    wait_until(lambda: count_files(team) <= before + 3)


def test_output_that_two_launchers_do_not_read_fills_no_memory_and_ends_with_them(
    team: Team,
) -> None:
    pid = team.workers[0].process.pid
    marks = [team.root / f"flood-{number}" for number in range(2)]
    before, files = read_peak_bytes(pid), count_files(team)
    with contextlib.ExitStack() as stack:
        for mark in marks:
            channel = stack.enter_context(open_channel(team))
            script = f"trap 'touch {mark}; exit 1' TERM; cat /dev/zero & wait"
            channel.send(encode_request(build_request(team, script)))
            channel.flush()
        # The endpoint has time for hundreds of MB.
        for _ in range(3):
            assert team.run(HOST, "echo", "through")[:2] == (0, "through\n")
        assert read_peak_bytes(pid) - before < MAX_FLOOD_BYTES
    for mark in marks:
        wait_until(mark.exists)
    # The agent's own connections come and go.
    wait_until(lambda: count_files(team) <= files + 3)


def build_lonely_roster(team: Team) -> Roster:
    return Roster(
        generation=1,
        attempt=team.attempt,
        role="worker",
        index=0,
        rank=0,
        is_member=True,
        is_leaving=False,
        is_completing=False,
        peers=(),
    )


def start_endpoint(
    team: Team, read_roster: Callable[[], Roster], clock: AgentClock = CLOCK
) -> Endpoint:
    """Start an endpoint in this process; from 127.0.0.1, it admits all."""
    own = (team.attempt, "worker", 0)
    reporter = LineReporter("test", is_json=False)
    credentials = load(team, is_server=True)
    parts = Parts(own, credentials, read_roster, Children(CLOCK), 1.0, reporter, clock)
    endpoint = Endpoint(parts, "127.0.0.1", 0)
    endpoint.start()
    return endpoint


class LookedAtClock(AgentClock):
    """A clock by which each look takes a second; a test waits for the looks."""

    def __init__(self) -> None:
        self.looks: queue.SimpleQueue[float] = queue.SimpleQueue()
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        self.looks.put(self.now)
        return self.now

    def to_machine(self, seconds: float) -> float:  # noqa: ARG002 only the looks count
        # Longer than the test waits for the end.
        return 4 * HANG_SECONDS

    def wait_for_look(self) -> None:
        self.looks.get(timeout=HANG_SECONDS)


def send_bytes(send: Callable[[bytes], object], data: bytes, clock: LookedAtClock) -> None:
    """Send one byte for each look of the endpoint, until its time is over."""
    # The first look is for the deadline.
    clock.wait_for_look()
    for byte in data:
        clock.wait_for_look()
        if clock.now > PENDING_SECONDS:
            return
        send(bytes((byte,)))
    raise AssertionError("it took all")


def test_handshake_that_comes_byte_by_byte_ends_in_time(team: Team) -> None:
    clock = LookedAtClock()
    endpoint = start_endpoint(team, lambda: build_lonely_roster(team), clock)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        load(team).context.wrap_bio(incoming, outgoing).do_handshake()
    with socket.create_connection(("127.0.0.1", endpoint.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send_bytes(connection.sendall, outgoing.read()[:-1], clock)
        assert is_hung_up(connection)


def test_request_that_comes_byte_by_byte_ends_in_time(team: Team) -> None:
    clock = LookedAtClock()
    endpoint = start_endpoint(team, lambda: build_lonely_roster(team), clock)
    connected = socket.create_connection(("127.0.0.1", endpoint.port))
    channel = Channel(connected, load(team), FROM_ENDPOINT, is_server=False)

    def send(byte: bytes) -> None:
        channel.send(byte)
        channel.flush()

    with contextlib.closing(channel):
        channel.shake_hands(CLOCK.monotonic() + HANG_SECONDS, CLOCK)
        send_bytes(send, encode_request(build_request(team)), clock)
        assert ask(channel, b"") == []


def test_control_characters_of_a_command_reach_its_shell_and_no_log(team: Team) -> None:
    hostile = "\x1b]52;c;eA==\x07\r\n\x01\x7f\x9b2J"
    copy = team.root / "control-characters"
    assert team.run(HOST, f"printf %s '{hostile}' | tee {copy}") == (0, hostile, "")
    assert copy.read_bytes() == hostile.encode()
    with open_channel(team) as channel:
        (frame,) = ask(channel, encode_request(build_request(team, "\0")))
    assert (frame.kind, b"zero byte" in frame.content) == (Kind.REFUSED, True)
    request = build_request(team)._replace(role=hostile)
    with open_channel(team) as channel:
        (frame,) = ask(channel, encode_request(request))
    assert frame.kind is Kind.REFUSED
    assert frame.content.decode().isprintable()
    log = team.workers[0].text
    assert log.replace("\n", "").isprintable()


def test_control_characters_of_a_refusal_are_not_printed(team: Team) -> None:
    address = get_worker_address(5)

    def refuse(listener: socket.socket) -> None:
        connected, _ = listener.accept()
        credentials = load(team, is_server=True)
        channel = Channel(connected, credentials, FROM_CLIENT, is_server=True)
        with contextlib.closing(channel):
            channel.shake_hands(CLOCK.monotonic() + HANG_SECONDS, CLOCK)
            channel.send(encode_refusal("go \x1b]52;c;eA==\x07\r\nerror: forged \x9b2J"))
            channel.finish(CLOCK.monotonic() + HANG_SECONDS, CLOCK)

    team.publish(4, count=6)
    team.render()
    with socket.create_server((address, team.port)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        code, output, errors = team.run(address, "true", FB_RSH_TIMEOUT_SEC="0.001")
        thread.join(HANG_SECONDS)
    assert (code, output) == (255, "")
    assert "go \\x1b]52" in errors
    assert errors.count("\n") == 1
    assert errors.rstrip("\n").isprintable()


def test_roster_that_a_program_has_damaged_ends_one_connection_only(team: Team) -> None:
    rosters = [ValueError("no JSON"), KeyError("peers")]

    def read_roster() -> Roster:
        if rosters:
            raise rosters.pop()
        return build_lonely_roster(team)

    endpoint = start_endpoint(team, read_roster)
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", endpoint.port)) as connection:
            assert is_hung_up(connection)
    connected = socket.create_connection(("127.0.0.1", endpoint.port))
    channel = Channel(connected, load(team), FROM_ENDPOINT, is_server=False)
    with contextlib.closing(channel):
        channel.shake_hands(CLOCK.monotonic() + HANG_SECONDS, CLOCK)


def test_address_of_a_former_member_is_hung_up_on(
    api: Access, gang_numbers: Iterator[int], tmp_path: Path
) -> None:
    publisher = Publisher(api.open_http(), f"attacked{next(gang_numbers)}")
    former = get_worker_address(1)
    with open_team(api, publisher, tmp_path) as team:
        team.publish(2, count=2)
        team.workers[0].wait_for("generation 2 is current")
        credentials = load(team)
        with dial(team, former) as connection:
            credentials.context.wrap_socket(connection).close()
        team.publish(3, count=1)
        team.workers[0].wait_for("generation 3 is current")
        # It still has the key.
        with dial(team, former) as connection:
            assert is_hung_up(connection)
