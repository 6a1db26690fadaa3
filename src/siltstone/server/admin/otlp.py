"""Pushes the metrics of a process to a collector, by OTLP over HTTP, beside or instead of being scraped.

One export at a time: while a collector is silent, an export ends after OTLP_EXPORT_MS_MAX, is given up, and the next
one has newer values. So nothing gathers in memory, and nothing waits for a collector, not even the end of the process.
Encoding and the request are made in a thread. What OpenTelemetry's own variables of the environment say counts too:
headers with a token, certificates, compression, attributes of the resource.
"""

import logging
import os
import socket
from typing import TYPE_CHECKING, Protocol

from siltstone.model.errors import InvalidRequest
from siltstone.model.serving_limits import OTLP_EXPORT_MS_MAX
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock
from siltstone.server.admin.scrape import Collected, Scrapes

if TYPE_CHECKING:  # the extra may not be installed
    from opentelemetry.sdk.metrics.export import MetricsData

log = logging.getLogger(__name__)


class OtlpExtraMissing(InvalidRequest):
    """The export of metrics needs the extra ``otlp``, which is not installed."""


class OtlpPort(Protocol):
    def send(self, collected: Collected, now_ms: float) -> bool:
        """Returns whether the collector has taken the metrics. It blocks for a bounded time."""
        ...

    def close(self) -> None:
        """Ends the waits between attempts."""
        ...


class OtlpCollector:
    """The collector at ``endpoint``, the whole URL. Raises OtlpExtraMissing."""

    def __init__(self, endpoint: str, start_ms: float, export_ms_max: float = OTLP_EXPORT_MS_MAX) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            raise OtlpExtraMissing(
                f"admin.otlp_endpoint needs the package {missing.name}: pip install 'siltstone[otlp]'"
            ) from missing
        logging.getLogger("opentelemetry.exporter").setLevel(
            logging.CRITICAL
        )  # each failure would be two lines
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=export_ms_max / 1000)
        instance = f"{socket.gethostname()}:{os.getpid()}"
        named = {"service.name": "siltstone", "service.instance.id": instance}
        self._resource = Resource(named).merge(OTELResourceDetector().detect())
        self._start_ms = start_ms

    def send(self, collected: Collected, now_ms: float) -> bool:
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415

        return self._exporter.export(self._metrics(collected, now_ms)) is MetricExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()

    def _metrics(self, collected: Collected, now_ms: float) -> "MetricsData":
        from siltstone.server.admin.otlp_metrics import otlp_metrics  # noqa: PLC0415

        return otlp_metrics(collected.series, self._resource, start_ms=self._start_ms, now_ms=now_ms)


class OtlpExport:
    """Exports what ``scrapes`` collects, every ``interval_ms``, for as long as ``run`` runs."""

    def __init__(self, port: OtlpPort, scrapes: Scrapes, interval_ms: int, clock: Clock) -> None:
        self._port = port
        self._scrapes = scrapes
        self._interval_ms = interval_ms
        self._clock = clock
        self._calls = ThreadedCalls("otlp", 1)
        self._is_failing = False

    async def run(self) -> None:
        while True:
            await self._clock.sleep_ms(self._interval_ms)
            await self._export()

    def close(self) -> None:
        """Call it after ``run`` has ended. A request under way is not waited for: its thread ends after it."""
        self._calls.abandon()
        self._port.close()

    async def _export(self) -> None:
        collected = await self._scrapes.collect()
        try:
            is_taken = await self._calls.run(self._port.send, collected, self._clock.now_ms())
        except Exception:
            log.exception("metrics could not be exported by OTLP")
            return
        if self._is_failing is is_taken:
            self._is_failing = not is_taken
            if is_taken:
                log.warning("the collector of admin.otlp_endpoint takes metrics again")
            else:
                log.warning(
                    "the collector of admin.otlp_endpoint takes no metrics: they are given up until it does"
                )
