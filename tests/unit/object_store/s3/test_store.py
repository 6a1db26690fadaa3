"""The S3 adapter against a server that misbehaves; contracts/object_store has it against a real one."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.object_store.port import (
    InvalidStoreUrl,
    MultipartUpload,
    ObjectNotFound,
    ObjectSummary,
    ObjectTruncated,
    StoreDenied,
    StoreTransient,
    UploadedPart,
)
from siltstone.object_store.s3.location import S3Location
from siltstone.object_store.s3.store import S3Store
from support.processes.ports import free_port

pytestmark = pytest.mark.xdist_group("s3-answers")  # one worker loads the library of S3

KEY = "a5/objects/1"


class Answers(BaseHTTPRequestHandler):
    """Gives each request the server's one answer; None closes the connection."""

    protocol_version = "HTTP/1.1"  # the server asks for bodies whose client waits for that
    server: "Server"

    def answer(self) -> None:
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        reply = self.server.by_path.get(self.path, self.server.reply)
        if reply is None:
            self.close_connection = True
            return
        status, length, body = reply
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
        self.by_path: dict[str, tuple[int, int, bytes] | None] = {}
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
    with opened(free_port()) as store, pytest.raises(StoreTransient) as caught:
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


def test_a_range_from_the_middle_of_an_object_is_whole(server: Server, store: S3Store) -> None:
    server.reply = (206, 5, b"34567")

    assert store.get_range(KEY, 3, 8) == b"34567"


def test_a_server_that_ignores_ranges_is_not_believed(server: Server, store: S3Store) -> None:
    server.reply = (200, 10, b"0123456789")

    with pytest.raises(StoreDenied, match="ignores ranges"):
        store.get_range(KEY, 2, 4)


def test_a_head_that_finds_nothing_says_if_it_is_the_bucket_that_is_missing(
    server: Server, store: S3Store
) -> None:
    server.reply = (404, 0, b"")
    with pytest.raises(
        StoreDenied, match=r"^there is no bucket bucket \(s3://.*\): create the bucket bucket, which"
    ):
        store.head(KEY)


@pytest.mark.parametrize("bucket_answer", [(200, 0, b""), (403, 0, b""), None])
def test_a_head_that_finds_nothing_in_a_bucket_asks_for_the_bucket_once(
    server: Server, store: S3Store, bucket_answer: tuple[int, int, bytes] | None
) -> None:
    server.reply = (404, 0, b"")
    server.by_path["/bucket"] = bucket_answer
    for _ in range(3):
        with pytest.raises(ObjectNotFound):
            store.head(KEY)
    of_bucket = [path for _, path, _ in server.requests if path == "/bucket"]
    assert len(of_bucket) == (3 if bucket_answer is None else 1), "it may answer the next time"


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
    checksum = base64.b64encode(crc32c([b"0123456"]).to_bytes(4, "big")).decode()
    added = {name.lower(): value for name, value in headers.items() if "checksum" in name.lower()}
    assert added == {"x-amz-checksum-crc32c": checksum}
    assert server.bodies == [b"0123456"]


# -- the calls of botocore, and their answers ------------------------------------------------------------------

MODIFIED = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MODIFIED_MS = 1_767_323_045_678


class Bucket:
    """A client of botocore with objects of ten bytes, whose lists have two entries a page."""

    def __init__(self, *keys: str) -> None:
        self.keys = sorted(keys)
        self.asked: list[dict[str, Any]] = []

    def head_object(self, **at: str) -> dict[str, Any]:
        assert at == {"Bucket": "bucket", "Key": "prefix/a"}
        return {"ContentLength": 10, "LastModified": MODIFIED}

    def list_objects_v2(self, **request: Any) -> dict[str, Any]:
        self.asked.append(dict(request))
        after = request.get("ContinuationToken", request.get("StartAfter", ""))
        found = [key for key in self.keys if key.startswith(request["Prefix"]) and key > after]
        page: dict[str, Any] = {"IsTruncated": len(found) > 2}
        if found:
            page["Contents"] = [{"Key": key, "Size": 10, "LastModified": MODIFIED} for key in found[:2]]
        return page | ({"NextContinuationToken": found[1]} if len(found) > 2 else {})


def with_client(store: S3Store, client: object) -> S3Store:
    store._client.close()
    store._client = client
    client.close = lambda: None  # type: ignore[attr-defined]
    return store


def test_an_object_is_described_with_its_size_and_its_time_in_milliseconds(store: S3Store) -> None:
    assert with_client(store, Bucket()).head("a") == ObjectSummary("a", 10, MODIFIED_MS)


def test_an_empty_range_is_asked_of_nobody_but_its_place_is_looked_at(store: S3Store) -> None:
    """HTTP has no empty range."""
    with_client(store, Bucket())
    assert [store.get_range("a", at, at) for at in (0, 5, 10)] == [b""] * 3
    with pytest.raises(ObjectTruncated, match="object a has 10 bytes, but bytes up to 11 were requested"):
        store.get_range("a", 11, 11)
    for start, end in ((3, 2), (-1, 4)):
        with pytest.raises(AssertionError):
            store.get_range("a", start, end)


def test_a_list_has_all_pages_without_the_prefix_of_the_location(store: S3Store) -> None:
    bucket = Bucket(*(f"prefix/k/{number}" for number in range(5)), "prefix/other", "elsewhere")
    with_client(store, bucket)
    assert list(store.list("k/")) == [ObjectSummary(f"k/{number}", 10, MODIFIED_MS) for number in range(5)]
    assert bucket.asked == [
        {"Bucket": "bucket", "Prefix": "prefix/k/"},
        {"Bucket": "bucket", "Prefix": "prefix/k/", "ContinuationToken": "prefix/k/1"},
        {"Bucket": "bucket", "Prefix": "prefix/k/", "ContinuationToken": "prefix/k/3"},
    ]
    assert [each.key for each in store.list("", after="k/3")] == ["k/4", "other"]
    assert bucket.asked[-1] == {"Bucket": "bucket", "Prefix": "prefix/", "StartAfter": "prefix/k/3"}
    assert list(store.list("nothing")) == []


def test_a_list_is_read_page_by_page(store: S3Store) -> None:
    bucket = Bucket(*(f"prefix/{number}" for number in range(9)))
    pages = with_client(store, bucket).list()
    assert not bucket.asked, "nothing is asked before somebody reads"
    next(pages), next(pages)
    assert len(bucket.asked) == 1


def test_an_upload_in_parts_is_checked_before_it_is_sent(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right upload is sent to the bucket; tests/contracts shows that with a real server."""
    calls: list[tuple[Any, ...]] = []

    class Uploads:
        def __getattr__(self, name: str) -> Any:
            return lambda *given: calls.append((name, *given)) or name

    monkeypatch.setattr(store, "_uploads", Uploads())
    upload = MultipartUpload("a", "u1")
    assert store.start_multipart("a") == "start"
    assert store.upload_part(upload, 1, 7, [b"x"]) == "send_part"
    assert store.copy_part(upload, 2, 8, "b", 0, 1) == "copy_part"
    assert store.list_multipart() == "list"
    store.abort_multipart(upload)
    store.complete_multipart(upload, [UploadedPart(1, 0, 5), UploadedPart(2, 5, 6)])
    assert calls == [
        ("start", "a"), ("send_part", upload, 1, 7, [b"x"]), ("copy_part", upload, 2, 8, "b", 0, 1), ("list",),
        ("abort", upload), ("complete", upload, [UploadedPart(1, 0, 5), UploadedPart(2, 5, 6)], 11),
    ]  # fmt: skip
    for start, end in ((1, 1), (2, 1), (-1, 1)):
        with pytest.raises(AssertionError, match="no range to copy"):
            store.copy_part(upload, 1, 0, "b", start, end)
    for number in (0, -1):
        with pytest.raises(Exception, match=str(number)):
            store.upload_part(upload, number, 0, [b"x"])


def test_nothing_to_delete_asks_for_nothing(store: S3Store) -> None:
    with_client(store, Bucket()).delete([])


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(
        InvalidStoreUrl, match="Invalid endpoint: javascript:alert; an endpoint is an address"
    ):
        S3Store(S3Location("bucket", endpoint_url="javascript:alert", region="r"), 1)
