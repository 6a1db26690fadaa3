"""A put whose connection ends between its head and its body leaves nothing: SeaweedFS would keep an object without a
byte, which nobody could tell from a damaged one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote, urlsplit

import pytest

from siltstone.object_store.port import ObjectStore, StoreTransient
from siltstone.object_store.s3.location import S3Location
from siltstone.object_store.s3.store import S3Store
from support.engine.s3_server import BUCKET, S3Server

KEY = "a5/objects/1"

pytestmark = pytest.mark.s3


class HeadOnlyProxy:
    """Passes the head of each request and so many bytes of its body, and ends the connection. ``ended`` is set when the
    server has seen the end, too."""

    def __init__(self, port: int, body_bytes: int) -> None:
        self._port, self._body_bytes = port, body_bytes
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.ended = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                with near, socket.create_connection(("127.0.0.1", self._port)) as far:
                    self._pass_head(near, far)

    def _pass_head(self, near: socket.socket, far: socket.socket) -> None:
        given = b""
        while b"\r\n\r\n" not in given:
            given += near.recv(65_536)
        head, end, body = given.partition(b"\r\n\r\n")
        far.sendall(head + end)
        if b"100-continue" in head.lower():
            near.sendall(far.recv(65_536))
        while len(body) < self._body_bytes:
            body += near.recv(65_536)
        far.sendall(body[: self._body_bytes])
        far.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            while far.recv(65_536):  # the server's last words
                pass
        self.ended.set()

    def close(self) -> None:
        self._listening.close()


@pytest.fixture(params=[0, 1, 5_000], ids=lambda count: f"{count} bytes")
def proxy(server: S3Server, request: pytest.FixtureRequest) -> Iterator[HeadOnlyProxy]:
    opened = HeadOnlyProxy(urlsplit(server.endpoint_url).port or 0, request.param)
    yield opened
    opened.close()


def test_a_put_that_is_cut_after_its_head_leaves_no_object(server: S3Server, proxy: HeadOnlyProxy) -> None:
    prefix = f"cut-{proxy.port}"
    cut = opened(f"http://127.0.0.1:{proxy.port}", prefix)
    whole = opened(server.endpoint_url, prefix)
    with pytest.raises(StoreTransient):
        cut.put_if_absent(KEY, [b"x" * 10_000])
    assert proxy.ended.wait(60)
    assert [*whole.list()] == []
    whole.put_if_absent(KEY, [b"x" * 10_000])
    assert whole.head(KEY).size_bytes == 10_000
    cut.close()
    whole.close()


def opened(endpoint_url: str, prefix: str) -> ObjectStore:
    url = f"s3://{BUCKET}/{prefix}?endpoint_url={quote(endpoint_url, safe='')}&region=us-east-1"
    return S3Store(S3Location.parse(url), connections_max=2)
