"""The export, to a real receiver and to one that is silent."""

import asyncio
import logging
import re
import sys
import threading

import pytest

from siltstone.model.serving_limits import OTLP_EXPORT_MS_MAX
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.admin.exposition import TextFormat
from siltstone.server.admin.listening import open_admin_listeners
from siltstone.server.admin.otlp import OtlpCollector, OtlpExport, OtlpExtraMissing
from siltstone.server.admin.scrape import Collected, Scrapes
from siltstone.server.settings.admin import AdminSettings
from support.metrics.otlp_receiver import OtlpReceiver
from support.metrics.scraping import parsed
from support.scenarios import in_loop


class FakePort:
    """Answers what ``takes`` says; ``sent`` has the time of each export."""

    def __init__(self) -> None:
        self.takes: bool | Exception = True
        self.sent: list[float] = []
        self.called = threading.Semaphore(0)
        self.is_closed = False

    def send(self, collected: Collected, now_ms: float) -> bool:
        self.sent.append(now_ms)
        self.called.release()
        if isinstance(self.takes, Exception):
            raise self.takes
        return self.takes

    def close(self) -> None:
        self.is_closed = True


async def exported(export: OtlpExport, takes: bool | Exception, port: FakePort) -> None:
    port.takes = takes
    await export._export()


@in_loop
async def test_an_outage_is_said_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    port = FakePort()
    export = OtlpExport(port, Scrapes(list, ManualClock()), 1_000, ManualClock())
    with caplog.at_level(logging.WARNING):
        for takes in (True, False, False, True, True, False):
            await exported(export, takes, port)
    said = ["takes no metrics" in record.message for record in caplog.records]
    assert said == [True, False, True] and len(port.sent) == 6
    export.close()
    assert port.is_closed


@in_loop
async def test_a_failure_of_ours_does_not_end_the_exports(caplog: pytest.LogCaptureFixture) -> None:
    port = FakePort()
    export = OtlpExport(port, Scrapes(list, ManualClock()), 1_000, ManualClock())
    await exported(export, ValueError("wrong"), port)
    await exported(export, True, port)
    assert len(port.sent) == 2 and "could not be exported" in caplog.text
    export.close()


@in_loop
async def test_a_collector_gets_the_series_of_a_scrape_under_the_same_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without listeners, and with a header and an attribute from OpenTelemetry's own variables."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20token")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with OtlpReceiver().running() as receiver:
        settings = AdminSettings(otlp_endpoint=receiver.endpoint, otlp_interval_ms=10)
        async with open_admin_listeners(settings, SystemClock()) as listeners:
            assert listeners is not None and listeners.urls == []
            for _ in range(2):
                await asyncio.to_thread(receiver.arrived.acquire)
            text = (await listeners.endpoints.scrapes.text(TextFormat.PROMETHEUS)).decode()
        scraped = parsed(text, TextFormat.PROMETHEUS)
        names = {re.sub("_(bucket|count|sum)$", "", name) for name, _ in scraped}
        assert set(receiver.metrics()) == names and len(names) > 5
        assert receiver.paths == {"/v1/metrics"} and receiver.headers[0]["authorization"] == "Bearer token"
        named = receiver.resource()
        assert named["service.name"] == "siltstone" and named["deployment.environment"] == "test"
        assert named["service.instance.id"]
        state = receiver.metrics()["siltstone_state"].gauge.data_points
        assert {each.attributes[0].value.string_value for each in state if each.as_int} == {"starting"}


@in_loop
async def test_a_silent_collector_holds_one_request_and_neither_the_loop_nor_the_end() -> None:
    """The time of an export is OpenTelemetry's; here the end comes while the first one waits."""
    with OtlpReceiver().running() as receiver:
        receiver.answers.clear()
        settings = AdminSettings(otlp_endpoint=receiver.endpoint, otlp_interval_ms=1)
        loop = asyncio.get_running_loop()
        async with open_admin_listeners(settings, SystemClock()) as listeners:
            assert listeners is not None
            await asyncio.to_thread(receiver.arrived.acquire)
            for _ in range(200):
                await SystemClock().sleep_ms(1)  # 200 intervals, in which the loop runs
            assert receiver.most_waiting == 1
            ending = loop.time()
        assert loop.time() - ending < OTLP_EXPORT_MS_MAX / 2_000, "the request under way is not waited for"


def test_an_export_to_a_silent_collector_is_given_up() -> None:
    with OtlpReceiver().running() as receiver:
        receiver.answers.clear()
        collector = OtlpCollector(receiver.endpoint, 0, export_ms_max=200)
        assert collector.send(Collected(), 1) is False
        receiver.answers.set()
        assert collector.send(Collected(), 2) is True
        collector.close()


def test_without_the_extra_the_start_is_refused_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(OtlpExtraMissing, match=r"pip install 'siltstone\[otlp\]'"):
        OtlpCollector("http://127.0.0.1:1/v1/metrics", 0)
