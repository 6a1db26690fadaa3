"""``/metrics``, ``/livez`` and ``/readyz`` of real processes, read by Prometheus' own library."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from siltstone.model.serving_limits import SCRAPE_SERIES_MAX
from siltstone.object_store.retrying import StoreStatistics
from siltstone.server.admin.exposition import TextFormat
from siltstone.server.admin.families import FAMILIES
from siltstone.server.admin.store_source import cost_of
from siltstone.server.settings.admin import AdminPrices
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.engine.s3_server import BUCKET, running_s3_server
from support.engine.small_store import small_store
from support.kafka.raw_calls import (
    batch_of,
    create_topic,
    fetch_request,
    produce_well,
)
from support.kafka.raw_kafka import Address, RawConnection
from support.metrics.scraping import Scrape, http_get, scrape, value_of, values_of
from support.processes.ports import free_ports

SECONDS_MAX = 60
URL = re.compile(r"http://([^:/]+):(\d+)")
ON = {"admin.listeners": "127.0.0.1:0"}
KEPT_SECONDS = 1.1
"""A scrape is kept for a second."""


def admin_address(log: Callable[[], str]) -> Address:
    """As the process writes it."""
    return eventually(lambda: URL.search(log()), lambda match: (match[1], int(match[2])))


def eventually(look, then=lambda found: found):
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return then(found)


@contextmanager
def broker_in(folder: Path, **settings: str) -> Iterator[tuple[BrokerProcess, Address]]:
    with BrokerProcess(folder / "store", {**ON, **settings}) as broker:
        yield broker, admin_address(lambda: broker.log)


def names_in(found: Scrape) -> set[str]:
    return {name for name, _ in found}


def test_ob01_both_formats_of_a_broker_say_the_same_in_names_of_the_reference(tmp_path: Path) -> None:
    """And OB04: the counters are exact, and never fall."""
    with broker_in(tmp_path) as (broker, admin), RawConnection(broker.address) as client:
        topic = create_topic(client, "t")
        for _ in range(1_000):
            produce_well(client, topic, batch_of())
        client.ask(fetch_request(topic, {0: 0}), 12)
        first = scrape(admin)
        assert value_of(first, "siltstone_requests_total", api="Produce") == 1_000
        assert value_of(first, "siltstone_append_seconds_count") == 1_000
        for api, stage, count in (("Produce", "durable", 1_000), ("Fetch", "read", 1), ("Fetch", "wait", 0)):
            labels = {"api": api, "stage": stage}
            assert value_of(first, "siltstone_request_stage_seconds_count", **labels) == count
        time.sleep(KEPT_SECONDS)
        second = scrape(admin, TextFormat.PROMETHEUS)
        assert first.keys() <= second.keys()
        falling = {key for key, value in first.items() if key[0].endswith("_total") and second[key] < value}
        assert not falling
        known = {family.sample_name for family in FAMILIES.values()}
        assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in names_in(second)} <= known
        assert http_get(admin, "/livez")[0] == http_get(admin, "/readyz")[0] == 200


def test_ob05_the_lag_of_a_stopped_group_is_exact(tmp_path: Path) -> None:
    with broker_in(tmp_path) as (broker, admin), RawConnection(broker.address) as client:
        topic = create_topic(client, "t", partitions=2)
        now_ms = int(time.time() * 1_000)
        for partition in range(2):
            for _ in range(10):
                produce_well(client, topic, batch_of(timestamp_ms=now_ms), partition=partition)
        servers = broker.bootstrap_servers
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "log_level": 0})
        consumer.commit(offsets=[TopicPartition("t", 0, 4)], asynchronous=False)
        consumer.close()
        found = scrape(admin)
        assert value_of(found, "siltstone_group_lag_records", group="g", topic="t") == 6
        age = time.time() - now_ms / 1_000
        assert 0 <= value_of(found, "siltstone_group_lag_seconds", group="g", topic="t") <= age + 1
        assert value_of(found, "siltstone_group_state", group="g", state="Empty") == 1


def test_ob01_a_maintenance_service_is_scraped_in_both_formats(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    log = tmp_path / "log.txt"
    words = f"maintain serve --runner in-process --set admin.listeners=127.0.0.1:0 --store {settings.folder}"
    with log.open("wb") as stderr:
        process = subprocess.Popen([SILTSTONE, *words.split()], stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        admin = admin_address(log.read_text)
        eventually(lambda: sum(values_of(scrape(admin), "siltstone_maintenance_units_total").values()))
        time.sleep(KEPT_SECONDS)
        for text_format in TextFormat:
            found = scrape(admin, text_format)
            assert set(values_of(found, "siltstone_compaction_debt_bytes").values()) == {0}
            assert set(values_of(found, "siltstone_maintenance_set_aside").values()) == {0}
        assert http_get(admin, "/readyz")[0] == 200
    finally:
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0


@pytest.mark.s3
def test_ob09_the_requests_to_a_bucket_are_those_that_its_server_counts(tmp_path: Path) -> None:
    """A broker uploads to a real S3 server."""
    (port,) = free_ports(1)
    with running_s3_server(f"-metricsPort={port}") as server:
        settings = {"buckets.0": server.new_url(), "engine.upload.cache_block_age_ms_max": "100"}
        before = settled_requests_of_server(port)
        with broker_in(tmp_path, **settings) as (broker, admin), RawConnection(broker.address) as client:
            topic = create_topic(client, "t")
            produce_well(client, topic, batch_of(value_bytes=100_000))
            looked_whether_the_bucket_exists = 1
            found = as_the_server_counts(port, before + looked_whether_the_bucket_exists, admin)
            cost_follows_from_requests(found)


def as_the_server_counts(port: int, before: float, admin: Address) -> Scrape:
    """Waits until the broker has put an object, and the broker and the server have counted the same number of
    requests."""

    def equal() -> Scrape | None:
        time.sleep(KEPT_SECONDS)
        found = scrape(admin)
        requests = values_of(found, "siltstone_store_requests_total")
        has_put = (("bucket", "0"), ("operation", "put")) in requests
        return found if has_put and sum(requests.values()) == requests_of_server(port) - before else None

    return eventually(equal)


def settled_requests_of_server(port: int) -> float:
    """The server opens this port later than the one of the bucket, and counts some requests after their answers."""

    def same_twice() -> tuple[float, float] | None:
        try:
            earlier = requests_of_server(port)
        except URLError:
            return None
        time.sleep(1)
        later = requests_of_server(port)
        return (earlier, later) if earlier == later else None

    return eventually(same_twice)[0]


def cost_follows_from_requests(found: Scrape) -> None:
    requests = {
        dict(labels)["operation"]: int(count)
        for labels, count in values_of(found, "siltstone_store_requests_total").items()
    }
    bytes_read = int(value_of(found, "siltstone_store_read_bytes_total", bucket="0"))
    cost = cost_of(StoreStatistics(requests, 0, bytes_read, 0), AdminPrices())
    assert value_of(found, "siltstone_store_cost_total", bucket="0") == pytest.approx(cost)
    assert cost > 0


def requests_of_server(port: int) -> float:
    """SeaweedFS' own count of the requests to the bucket of the tests."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = parse_prometheus(answer.read().decode())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "SeaweedFS_s3_request_total" and sample.labels["bucket"] == BUCKET
        )


# -- many topics (nightly) ------------------------------------------------------------------------------------

TOPICS = 5_000


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_ob03_a_scrape_of_5000_topics_has_5000_series_at_most_that_add_up(
    tmp_path: Path, record_tried
) -> None:
    """What scrapes cost: ``tests/unit/server/admin``."""
    with broker_in(tmp_path) as (broker, admin), RawConnection(broker.address) as client:
        for number in range(TOPICS):
            produce_well(client, create_topic(client, f"topic-{number}"), batch_of())
        record_tried("topics", TOPICS)
        for text_format in TextFormat:
            found = scrape(admin, text_format)
            assert len(found) <= SCRAPE_SERIES_MAX and value_of(found, "siltstone_scrape_series_dropped") == 0
            rows = values_of(found, "siltstone_topic_in_bytes_total")
            assert sum(rows.values()) == TOPICS * len(batch_of())
