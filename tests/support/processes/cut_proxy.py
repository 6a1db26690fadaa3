"""A proxy on this machine in the place of a network that can be cut: while it is, connections stay open and no byte
passes, as when a switch fails. What was under way then is lost."""

import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 256 * 1024


class CutProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        self._passes = threading.Event()
        self._passes.set()
        self._cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cuts += 1
        self._passes.clear()

    def mend(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self.mend()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._passes.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target_port))
        except OSError:  # a server that is killed: the client sees its connection reset
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        cuts = self._cuts
        with suppress(OSError):
            while data := one.recv(CHUNK_BYTES):
                if cuts != self._cuts:
                    self._passes.wait()
                    break
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
