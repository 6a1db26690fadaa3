import asyncio
import threading
from pathlib import Path

import pytest

from siltstone.model.serving_limits import Price
from siltstone.object_store.bucket_watch import BucketWatch
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.retrying import StoreStatistics
from siltstone.runtime.blocking import InlineCalls, ThreadedCalls
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin import store_source
from siltstone.server.admin.store_source import DiskSource, StoreSource, cost_of
from siltstone.server.settings.admin import AdminPrices
from support.metrics.scraping import collected_of, collected_on_loop, rows_of
from support.scenarios import in_loop

PRICES = AdminPrices(Price(5.0), Price(0.4), Price(0.1))


# -- requests --------------------------------------------------------------------------------------------


def test_requests_bytes_and_cost_are_by_bucket(tmp_path: Path):
    one, other = (
        Buckets.open({0: (tmp_path / "a").as_uri(), 1: (tmp_path / "b").as_uri()}, create=True)
        for _ in range(2)
    )
    one.store(0).put("k", [b"12345"])
    one.store(1).put("k", [b"1"])
    other.store(0).get_range("k", 0, 4)
    other.store(0).delete(["k"])
    collected = collected_of(StoreSource((one, other), PRICES))
    assert rows_of(collected, "store_requests") == {
        ("0", "put"): 1, ("0", "get_range"): 1, ("0", "delete"): 1, ("1", "put"): 1,
    }  # fmt: skip
    assert rows_of(collected, "store_written_bytes") == {("0",): 5, ("1",): 1}
    assert rows_of(collected, "store_read_bytes") == {("0",): 4, ("1",): 0}
    assert rows_of(collected, "store_retries") == {("0",): 0, ("1",): 0}
    seconds = rows_of(collected, "store_request_seconds")
    assert {labels: value.count for labels, value in seconds.items()} == rows_of(collected, "store_requests")
    assert rows_of(collected, "store_cost")["1",] == pytest.approx(5 / 1_000_000)


def test_a_bucket_that_does_not_answer_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    buckets = Buckets.open({0: (tmp_path / "a").as_uri(), 1: (tmp_path / "b").as_uri()}, create=True)
    assert rows_of(collected_of(StoreSource((buckets,), PRICES)), "store_silent") == {("0",): 0, ("1",): 0}
    monkeypatch.setattr(BucketWatch, "is_silent", property(lambda watch: watch._url.endswith("/b")))
    assert rows_of(collected_of(StoreSource((buckets,), PRICES)), "store_silent") == {("0",): 0, ("1",): 1}


def test_ob09_the_cost_is_that_of_the_requests_and_of_the_bytes_read():
    requests = {
        "put": 10,
        "list": 1,
        "upload_part": 4,
        "get_range": 100,
        "head": 20,
        "delete": 50,
        "abort_multipart": 3,
    }
    cost = cost_of(StoreStatistics(requests, 7, 2**31, 9), PRICES)
    assert cost == pytest.approx((15 * 5.0 + 120 * 0.4) / 1_000_000 + 2 * 0.1)


# -- disks -----------------------------------------------------------------------------------------------


class FakeDisks:
    def __init__(self) -> None:
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()

    def space_of(self, folder: Path) -> tuple[int, int]:
        self.asked += 1
        assert self.gate.wait(60)
        if folder.name == "gone":
            raise FileNotFoundError(folder)
        return (96, 100) if folder.name == "full" else (10, 100)


def test_disks_are_measured_every_ten_seconds():
    disks, clock = FakeDisks(), ManualClock()
    folders = {"log": Path("/log"), "bucket-0": Path("/full"), "metadata": Path("/gone")}
    source = DiskSource(folders, disks, InlineCalls(), clock)
    found = collected_of(source)
    assert rows_of(found, "disk_free_bytes") == {("log",): 90, ("bucket-0",): 4}
    assert rows_of(found, "disk_used_ratio") == {("log",): 0.1, ("bucket-0",): 0.96}
    assert rows_of(found, "disk_pressure") == {("log",): 0, ("bucket-0",): 2}
    clock.advance_ms(9_999)
    collected_of(source)
    assert disks.asked == 3
    clock.advance_ms(1)
    collected_of(source)
    assert disks.asked == 6


@in_loop
async def test_a_disk_that_hangs_delays_no_scrape_and_has_no_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_source, "DISK_SECONDS_MAX", 60)
    disks, clock, calls = FakeDisks(), ManualClock(), ThreadedCalls("disks", 1)
    source = DiskSource({"log": Path("/log")}, disks, calls, clock)
    assert rows_of(await collected_on_loop(source), "disk_free_bytes") == {("log",): 90}
    disks.gate.clear()
    clock.advance_ms(10_000)
    monkeypatch.setattr(store_source, "DISK_SECONDS_MAX", 0.01)
    for _ in range(3):
        assert rows_of(await collected_on_loop(source), "disk_free_bytes") == {}
    assert disks.asked == 2
    disks.gate.set()
    async with asyncio.timeout(60):
        while rows_of(await collected_on_loop(source), "disk_free_bytes") == {}:
            pass
    calls.close()
