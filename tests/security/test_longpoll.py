"""The agent's long-polls under attack, by real sockets on loopback: clients get their changes."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rendezvous.core.notifying.diff import Diff, PeerChange
from rendezvous.core.notifying.notification import CHANGED, Notify
from rendezvous.notify import longpoll
from rendezvous.notify.longpoll import PROOF_HEADER, Changes, Key, serve
from rendezvous.site.peers import compute_proof, is_proof
from tests.support.waiting import HANG_SECONDS, wait_until

ATTACKERS = 300
KEY = Key(b"ab" * 32, "0_attempt")
OTHER = Key(b"cd" * 32, "0_attempt")


def build_notification(generation: int, members: int = 1) -> Notify:
    added = tuple(PeerChange("worker", index, "10.0.0.1") for index in range(members))
    return Notify(CHANGED, Diff(generation, generation - 1, added, (), ()))


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), HANG_SECONDS)


@contextlib.contextmanager
def attack(port: int, sent: bytes) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(dial(port)) for _ in range(ATTACKERS)]
        for connection in opened:
            with contextlib.suppress(OSError):  # it may be closed already for a newer one
                connection.sendall(sent)
        yield opened


@contextlib.contextmanager
def open_http(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
    with contextlib.closing(connection):
        yield connection


def ask(
    connection: http.client.HTTPConnection, path: str, proof: str = ""
) -> tuple[int, dict[str, Any]]:
    connection.request("GET", path, headers={PROOF_HEADER: proof} if proof else {})
    response = connection.getresponse()
    body = response.read()
    return response.status, json.loads(body) if response.status == 200 else {}


def ask_once(port: int, path: str, proof: str = "") -> tuple[int, dict[str, Any]]:
    with open_http(port) as connection:
        return ask(connection, path, proof)


def count_threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /changes?after=0",
        b"GET /changes?after=100&timeout=300 HTTP/1.1\r\n\r\n",
    ],
    ids=["silent", "half a request", "polls that wait"],
)
def test_idle_connections_keep_no_client_out(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # Neither a deadline frees a place, nor is a busy machine's thread too late for a new client.
    monkeypatch.setattr(longpoll, "_REQUEST_SECONDS", 2.0 * HANG_SECONDS)
    monkeypatch.setattr(longpoll, "_PLACE_SECONDS", HANG_SECONDS)
    changes = Changes()
    changes(build_notification(1), {})
    port = serve(("127.0.0.1", 0), changes)
    # Threads of the test before end a moment after it.
    before = count_threads()
    with attack(port, sent):
        assert ask_once(port, "/changes?after=0&timeout=0")[1]["generation"] == 1
        wait_until(lambda: count_threads() <= before + longpoll._MAX_CONNECTIONS)
        # A waiting poll is answered: with the change, or early and polls again.
        threading.Timer(0.1, changes, (build_notification(2), {})).start()
        wait_until(lambda: ask_once(port, "/changes?after=100&timeout=5")[1]["changes"] != [])


def test_request_that_is_late_or_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longpoll, "_REQUEST_SECONDS", 0.3)
    port = serve(("127.0.0.1", 0), Changes())
    head = b"GET /changes HTTP/1.1\r\n"
    for sent in (b"", b"GET /ch", head + b"A: b\r\n", head + b"A: " + b"b" * 9000, b"x" * 9000):
        with dial(port) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            assert connection.recv(4096) == b"", sent


def test_slow_request_does_not_move_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longpoll, "_REQUEST_SECONDS", 0.3)
    port = serve(("127.0.0.1", 0), Changes())
    with dial(port) as connection:
        connection.settimeout(0.02)
        for _ in range(longpoll._MAX_REQUEST_BYTES - 1):
            try:
                connection.sendall(b"G")
                assert connection.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                pass  # closed before it had read the last byte
            return
    pytest.fail("the connection stays open")


def test_poll_of_a_closed_connection_ends() -> None:
    before = count_threads()
    port = serve(("127.0.0.1", 0), Changes())
    with attack(port, b"GET /changes?timeout=300 HTTP/1.1\r\n\r\n"):
        pass
    wait_until(lambda: count_threads() <= before)


def test_kept_changes_are_bounded_by_their_members() -> None:
    changes = Changes()
    for generation in range(1, 9):
        changes(build_notification(generation, 6000), {})
    answer = changes.wait(0, 0.0)
    assert [wire["generation"] for wire in answer["changes"]] == [6, 7, 8]
    assert answer["isComplete"] is False
    changes(build_notification(9, 50000), {})
    assert [wire["generation"] for wire in changes.wait(0, 0.0)["changes"]] == [9]


# --- The gang key ---------------------------------------------------------------------------------


def prove(connection: http.client.HTTPConnection, key: Key, nonce: str = "mine") -> str:
    """Ask for a challenge, check the agent's proof, and return the client's."""
    status, challenge = ask(connection, f"/challenge?nonce={nonce}")
    assert status == 200
    nonces = (challenge["nonce"], nonce)
    expected = compute_proof(KEY.secret, "changes", "agent", KEY.attempt, *nonces)
    assert is_proof(challenge["proof"], expected)
    return compute_proof(key.secret, "changes", "client", key.attempt, *nonces)


def test_client_with_the_key_polls_again_and_again() -> None:
    changes = Changes()
    changes(build_notification(1), {})
    port = serve(("127.0.0.1", 0), changes, KEY)
    with open_http(port) as connection:
        proof = prove(connection, KEY)
        for given in (proof, ""):
            status, answer = ask(connection, "/changes?after=0", given)
            assert (status, answer["generation"]) == (200, 1)


def test_client_without_the_key_learns_nothing() -> None:
    port = serve(("127.0.0.1", 0), Changes(), KEY)
    with open_http(port) as connection:
        used = prove(connection, KEY)
        assert ask(connection, "/changes?timeout=0", used)[0] == 200
    for proof in ("", "0" * 64, used):
        assert ask_once(port, "/changes?timeout=0", proof)[0] == 401
    with open_http(port) as connection:
        proof = prove(connection, OTHER)
        assert ask(connection, "/changes?timeout=0", proof)[0] == 401
    assert ask_once(port, f"/challenge?nonce={'x' * 200}")[0] == 400


def test_proof_is_valid_for_its_own_connection_only() -> None:
    port = serve(("127.0.0.1", 0), Changes(), KEY)
    with open_http(port) as first, open_http(port) as second:
        proof = prove(first, KEY)
        prove(second, KEY)
        assert ask(second, "/changes?timeout=0", proof)[0] == 401


def test_without_a_key_there_is_no_challenge() -> None:
    port = serve(("127.0.0.1", 0), Changes())
    assert ask_once(port, "/challenge?nonce=mine")[0] == 404
