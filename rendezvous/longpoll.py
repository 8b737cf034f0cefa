"""Long-polls on the loopback: ``GET /changes?after=NUMBER`` answers when there are newer ones.

Called by ``app`` where FB_LISTEN is set; it is one of the notifiers. For processes that may be
neither signalled nor restarted, in any language. Only this Pod can reach it.
"""

import json
import math
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Dict, List, Mapping, Tuple
from urllib.parse import parse_qs, urlsplit

from rendezvous.notify import Notification

_KEPT = 100
_PER_GENERATION = 100
_MAX_TIMEOUT_SECONDS = 300.0
_DEFAULT_TIMEOUT_SECONDS = 30.0


class Changes:
    """The last changes, numbered as they came; several may be of one generation.

    The numbers follow the generations, with gaps. So they go on when the agent starts anew, and
    who asks with the number he got before misses nothing and hears nothing twice.
    """

    def __init__(self, generation: int = 0) -> None:
        """Start with none; ``generation`` is what an agent before this one has told."""
        self._arrived = threading.Condition()
        self._kept: List[Dict[str, Any]] = []
        self._forgotten = generation * _PER_GENERATION
        self._last = self._forgotten + _PER_GENERATION - 1 if generation else 0
        self._generation = generation

    def __call__(self, notification: Notification, _env: Mapping[str, str]) -> None:
        """Take a notification: this is a notifier."""
        with self._arrived:
            self._generation = notification.diff.generation
            self._last = max(self._last + 1, self._generation * _PER_GENERATION)
            self._kept.append({**notification.to_wire(), "number": self._last})
            if len(self._kept) > _KEPT:
                self._forgotten = self._kept.pop(0)["number"]
            self._arrived.notify_all()

    def wait(self, after: int, timeout_seconds: float) -> Dict[str, Any]:
        """Wait for changes numbered higher than ``after``; without any in time there are none."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._last > after, timeout_seconds)
            return {
                "generation": self._generation,
                "number": max(self._last, after),
                # False: some were forgotten, so read the files instead.
                "isComplete": after >= self._forgotten,
                "changes": [wire for wire in self._kept if wire["number"] > after],
            }


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    changes: Changes


def serve(address: Tuple[str, int], changes: Changes) -> int:
    """Serve in threads of their own until the program ends; return the port.

    Raises:
        OSError: The port is taken.
    """
    server_class = _Server6 if ":" in address[0] else _Server
    server = server_class(address, _Handler)
    server.changes = changes
    threading.Thread(target=server.serve_forever, name="long-poll", daemon=True).start()
    return int(server.server_address[1])


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Answer a poll."""
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        try:
            after = int(query.get("after", ["0"])[0])
            seconds = float(query.get("timeout", [str(_DEFAULT_TIMEOUT_SECONDS)])[0])
            if math.isnan(seconds):  # no wait takes it
                raise ValueError
        except ValueError:
            self.send_error(400, "after and timeout are numbers")
            return
        if url.path != "/changes":
            self.send_error(404, "there is only /changes")
            return
        answer = self.server.changes.wait(after, min(max(seconds, 0.0), _MAX_TIMEOUT_SECONDS))
        body = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the base's
        """Say nothing: the log is for the gang."""
