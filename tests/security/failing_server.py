"""An HTTP server that fails in one way and repeats a text wherever a server may put one."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODES = ("refused", "close", "garbage", "cut", "tls", "302", "401", "403", "404", "500", "502")


class Handler(BaseHTTPRequestHandler):
    """Fails as ``mode`` says; without a ``text`` of its own it repeats the path of the request."""

    mode = ""
    text = ""

    def do_GET(self) -> None:
        # A server that closes a connection with unread bytes resets it: the answer may be lost.
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = self.text or f'User "system:anonymous" cannot get path "{self.path}"'
        if self.mode == "garbage":
            self.wfile.write(f"what is {self.path}?\r\n\r\n".encode())
        elif self.mode == "cut":
            self.answer(200, self.path, length=1000)
        elif self.mode in {"302", "502"}:
            self.answer(int(self.mode), f'<a href="http://127.0.0.1{self.path}">moved</a>')
        elif self.mode != "close":
            status = 200 if self.text and self.path.endswith("/version") else int(self.mode)
            reason = self.text or "No"
            self.answer(status, json.dumps({"kind": "Status", "message": text, "reason": reason}))
        self.close_connection = True

    def answer(self, status: int, body: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Location", f"http://127.0.0.1{self.path}")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 the names are those of http.server

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve(mode: str, text: str = "") -> Iterator[str]:
    """Serve in one of ``MODES``, or refuse connections; gives scheme, host and port."""
    if mode == "refused":
        # Bound, so that no other program takes the port, and not listening.
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{held.getsockname()[1]}"
        return
    handler = type("Failing", (Handler,), {"mode": mode, "text": text})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            # A server of mode `tls` speaks plain HTTP: the handshake fails.
            scheme = "https" if mode == "tls" else "http"
            yield f"{scheme}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
