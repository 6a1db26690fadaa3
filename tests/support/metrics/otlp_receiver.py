"""A collector of OTLP over HTTP in a thread: it decodes what it gets with OpenTelemetry's own messages."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric


class OtlpReceiver:
    """``answers`` is set while requests get an answer: without it they wait. ``arrived`` counts them."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.paths: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.waiting = 0
        self.most_waiting = 0
        self.answers = threading.Event()
        self.answers.set()
        self.arrived = threading.Semaphore(0)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(self.path, dict(self.headers), body)
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that gave up is no error."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/metrics"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        with self._lock:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
        self.arrived.release()
        self.answers.wait(60)
        with self._lock:
            self.waiting -= 1
            self.paths.add(path)
            self.headers.append(headers)
            self.requests.append(ExportMetricsServiceRequest.FromString(body))

    def metrics(self) -> dict[str, Metric]:
        """Name → metric of the newest request."""
        (resource,) = self.requests[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}

    def resource(self) -> dict[str, str]:
        (found,) = self.requests[-1].resource_metrics
        return {each.key: each.value.string_value for each in found.resource.attributes}

    @contextmanager
    def running(self) -> Iterator["OtlpReceiver"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.answers.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()
