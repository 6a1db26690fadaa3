"""A proxy in front of a real S3 server, which answers in its place as a test says: refused, busy, or never."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}


class Answers(Enum):
    PASSED = "those of the server"
    DENIED = "403 ExpiredToken"
    BUSY = "503 SlowDown"
    WRITES_DENIED = "403 AccessDenied to what writes"
    FULL = "507 XMinioStorageFull to what puts, as MinIO answers"
    NEVER = "none: requests are taken and not answered, until the proxy answers again; then they are cut off"


ERRORS = {
    Answers.DENIED: (403, "ExpiredToken", "The provided token has expired."),
    Answers.BUSY: (503, "SlowDown", "Please reduce your request rate."),
    Answers.WRITES_DENIED: (403, "AccessDenied", "Access Denied."),
    Answers.FULL: (507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."),
}
PASSED_METHODS = {
    Answers.WRITES_DENIED: ("GET", "HEAD"),
    Answers.FULL: ("GET", "HEAD", "DELETE"),
}
"""The methods that are passed to the server all the same."""


class S3Proxy:
    """``taken``: how many requests arrived while the proxy did not pass them."""

    def __init__(self, endpoint_url: str) -> None:
        target = urlsplit(endpoint_url)
        self.target = (target.hostname or "", target.port or 80)
        self.taken = 0
        self.passed: Counter[str] = Counter()
        """The requests that the server got, by method."""
        self.bytes_read = 0
        """The bytes of all answers to GET."""
        self._answers = Answers.PASSED
        self._passing = threading.Event()
        self._passing.set()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def answers(self) -> Answers:
        return self._answers

    def answer(self, answers: Answers) -> None:
        self._answers = answers
        if answers is Answers.NEVER:
            self._passing.clear()
        else:
            self._passing.set()

    def wait_until_it_answers(self) -> None:
        self._passing.wait()

    def close(self) -> None:
        self._passing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def s3_proxy(endpoint_url: str) -> Iterator[S3Proxy]:
    proxy = S3Proxy(endpoint_url)
    try:
        yield proxy
    finally:
        proxy.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection broke: the broker was killed, or gave up."""


class _Handler(BaseHTTPRequestHandler):
    """A connection of a client, with a connection to the server. Host and path are passed unchanged, because they
    are signed."""

    protocol_version = "HTTP/1.1"
    timeout = 300
    proxy: S3Proxy

    def handle_any(self) -> None:
        body = self._body()
        answers = self.proxy.answers
        if answers is Answers.PASSED or self.command in PASSED_METHODS.get(answers, ()):
            self.proxy.passed[self.command] += 1
            return self._pass(body)
        self.proxy.taken += 1
        if answers is Answers.NEVER:
            self.proxy.wait_until_it_answers()
            self.close_connection = True
            return None
        status, code, message = ERRORS[answers]
        text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        return self._answer(status, [("Content-Type", "application/xml")], text)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815  as http.server names them

    def log_message(self, *_: object) -> None:
        """Logs nothing: a test says what it found."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _pass(self, body: bytes) -> None:
        server = http.client.HTTPConnection(*self.proxy.target, timeout=60)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    server.putheader(name, value)
            server.putheader("Content-Length", str(len(body)))
            server.endheaders(body)
            answer = server.getresponse()
            headers = [each for each in answer.getheaders() if each[0].lower() not in HOP_BY_HOP]
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            body = answer.read()
            if self.command == "GET":
                self.proxy.bytes_read += len(body)
            self._answer(answer.status, headers, body, length)
        except OSError:
            self.close_connection = True
        finally:
            server.close()

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _handler_of(proxy: S3Proxy) -> type[_Handler]:
    return type("_HandlerOfOneProxy", (_Handler,), {"proxy": proxy})
