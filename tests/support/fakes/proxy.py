"""A TCP proxy in threads that a test can cut, stall or make deaf."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class ThreadProxy:
    """Forwards connections to a server.

    While it ``is_cut``, it hangs up on new connections and counts them in ``refused``. While it
    ``is_deaf``, it accepts new connections and forwards nothing.
    """

    def __init__(self, address: str, port: int = 0) -> None:
        """Forward to the server of a URL; ``address`` is the URL of the proxy for the same path."""
        url = urlsplit(address)
        assert url.hostname is not None
        assert url.port is not None
        self._target = (url.hostname, url.port)
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}{url.path}"
        self._sockets: list[socket.socket] = []
        self._stalled: set[socket.socket] = set()
        # Held while a connection is accepted: it is refused, or a cut finds both of its ends.
        self._lock = threading.Lock()
        self.is_cut = False
        self.is_deaf = False
        self.refused = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        with self._lock:
            self.is_cut = True
            for each in self._sockets:
                _shut(each, socket.SHUT_RDWR)

    def stall(self) -> None:
        """Turn all open connections into black holes."""
        with self._lock:
            self._stalled.update(self._sockets)

    def close(self) -> None:
        """Break all connections; from now on, nothing listens."""
        self.cut()
        _shut(self._listener, socket.SHUT_RDWR)
        self._thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    self._take(near)

    def _take(self, near: socket.socket) -> None:
        if self.is_cut:
            self.refused += 1
            near.close()
            return
        self._sockets.append(near)
        if self.is_deaf:
            return
        try:
            far = socket.create_connection(self._target)
        except OSError:
            # The server is away; a later connection may reach it.
            _shut(near, socket.SHUT_RDWR)
            return
        self._sockets.append(far)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while received := source.recv(65536):
                if source not in self._stalled:
                    sink.sendall(received)
        if source not in self._stalled:
            _shut(sink, socket.SHUT_WR)


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(how)


@contextlib.contextmanager
def run_proxy(address: str, port: int = 0) -> Iterator[ThreadProxy]:
    """Forward to a server until the block ends; ``port`` 0 takes a free one."""
    proxy = ThreadProxy(address, port)
    try:
        yield proxy
    finally:
        proxy.close()
