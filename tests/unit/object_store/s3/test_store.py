"""The S3 adapter against a server that misbehaves; contracts/object_store has it against a real one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from siltstone.object_store.port import ObjectTruncated, StoreDenied, StoreTransient
from siltstone.object_store.s3.location import S3Location
from siltstone.object_store.s3.store import S3Store
from support.engine.s3_server import free_ports

KEY = "a5/objects/1"


class Answers(BaseHTTPRequestHandler):
    """Gives each request the server's one answer; None closes the connection."""

    protocol_version = "HTTP/1.1"  # which has it ask for bodies that wait to be asked for
    server: "Server"

    def answer(self) -> None:
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.server.reply is None:
            self.close_connection = True
            return
        status, length, body = self.server.reply
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_HEAD = answer  # noqa: N815  the library's names

    def log_message(self, *_: object) -> None:
        return None


class Server(ThreadingHTTPServer):
    reply: tuple[int, int, bytes] | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[bytes] = []


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def opened(port: int) -> Iterator[S3Store]:
    endpoint = f"http%3A%2F%2F127.0.0.1%3A{port}"
    store = S3Store(
        S3Location.parse(f"s3://bucket/prefix?endpoint_url={endpoint}&region=us-east-1&anonymous=true"), 4
    )
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(server: Server) -> Iterator[S3Store]:
    with opened(server.server_port) as store:
        yield store


def test_each_call_is_one_attempt(server: Server, store: S3Store) -> None:
    server.reply = (503, 0, b"")

    with pytest.raises(StoreTransient) as caught:
        store.put(KEY, [b"1"])

    assert not caught.value.uncertain
    assert len(server.requests) == 1


def test_a_connection_closed_without_an_answer_leaves_the_put_uncertain(
    server: Server, store: S3Store
) -> None:
    with pytest.raises(StoreTransient) as caught:
        store.put(KEY, [b"1", b"23"])

    assert caught.value.uncertain
    assert server.bodies == [b"123"]


def test_a_refused_connection_left_nothing_behind() -> None:
    with opened(free_ports(1)[0]) as store, pytest.raises(StoreTransient) as caught:
        store.put(KEY, [b"1"])

    assert not caught.value.uncertain


def test_an_answer_that_breaks_off_is_tried_again_and_not_taken_for_the_end(
    server: Server, store: S3Store
) -> None:
    server.reply = (206, 10, b"01234")

    with pytest.raises(StoreTransient):
        store.get_range(KEY, 0, 10)


def test_a_whole_answer_shorter_than_asked_is_a_truncated_object(server: Server, store: S3Store) -> None:
    server.reply = (206, 5, b"01234")

    with pytest.raises(ObjectTruncated, match="ends at 8"):
        store.get_range(KEY, 3, 13)


def test_a_server_that_ignores_ranges_is_not_believed(server: Server, store: S3Store) -> None:
    server.reply = (200, 10, b"0123456789")

    with pytest.raises(StoreDenied, match="ignores ranges"):
        store.get_range(KEY, 2, 4)


def test_deleting_reports_keys_that_were_not_deleted(server: Server, store: S3Store) -> None:
    def failed(code: str) -> tuple[int, int, bytes]:
        body = (
            f"<DeleteResult><Error><Key>prefix/k/1</Key><Code>{code}</Code></Error></DeleteResult>".encode()
        )
        return 200, len(body), body

    server.reply = failed("InternalError")
    with pytest.raises(StoreTransient, match="1 of 2 keys, such as prefix/k/1"):
        store.delete(["k/1", "k/2"])
    server.reply = failed("AccessDenied")
    with pytest.raises(StoreDenied):
        store.delete(["k/1", "k/2"])
    server.reply = failed("NoSuchKey")
    store.delete(["k/1", "k/2"])


def test_what_is_sent(server: Server, store: S3Store) -> None:
    server.reply = (200, 0, b"")
    store.put_if_absent(KEY, [b"0123", memoryview(b"456")])

    method, path, headers = server.requests[0]
    assert (method, path) == ("PUT", "/bucket/prefix/a5/objects/1")
    assert headers["If-None-Match"] == "*"
    assert headers["Content-Length"] == "7"
    assert not [name for name in headers if "checksum" in name.lower()]
    assert server.bodies == [b"0123456"]
