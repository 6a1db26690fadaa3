"""A proxy on this machine that loses connections at the worst moment: the broker has got the request, and its answer
never arrives."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from siltstone.kafka_client.connection import Address


class LossyProxy:
    """``answers_until_loss``: so many answers come through on a connection, then it breaks; 0: none are lost."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._server.getsockname()[1])
        self.answers_until_loss = 0
        self.losses = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection((self._target.host, self._target.port))
                threading.Thread(target=self._forward, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._answer, args=(broker, client), daemon=True).start()

    def _forward(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError), broker:
            while data := client.recv(65_536):
                broker.sendall(data)
            broker.shutdown(socket.SHUT_RDWR)

    def _answer(self, broker: socket.socket, client: socket.socket) -> None:
        answers = 0
        with suppress(OSError), client, broker.makefile("rb") as coming:
            while head := coming.read(4):
                frame = coming.read(int.from_bytes(head, "big"))
                answers += 1
                if 0 < self.answers_until_loss < answers:
                    self.losses += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(head + frame)

    def close(self) -> None:
        self._server.close()


@contextmanager
def lossy_proxy(target: Address) -> Iterator[LossyProxy]:
    proxy = LossyProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
