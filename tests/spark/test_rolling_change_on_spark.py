"""RO01 with a stream of Spark beside: while a cluster goes from plaintext to TLS to a login and rights, one query reads
what is produced, and is never started again. The file of ``kafka.client.config`` is replaced under it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.broker.rolling_cluster import (
    HANG_SECONDS,
    LOGIN,
    PLAIN,
    RollingCluster,
    SteadyProducer,
    begin_secured,
    change_all,
    change_back,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

GROUPS = ("security.", "ssl.", "sasl.")
QUIET_SECONDS = 3
ALL_IN_TAILS = {"engine.upload.cache_block_age_ms_max": "1h"}
"""Only a node that stops uploads: the query gets nothing more without asking a broker."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RollingCluster]:
    rolling = RollingCluster(tmp_path, ALL_IN_TAILS)
    try:
        yield rolling
    finally:
        rolling.close()


class RollingStream:
    """A query into files of Parquet, and the file that says how it connects. ``named``: the file names its listener, so
    it may be replaced before the cluster's own is."""

    def __init__(
        self, spark: Any, cluster: RollingCluster, folder: Path, listener: str, *, named: bool = False
    ) -> None:
        self._spark, self._cluster, self._named = spark, cluster, named
        self._file, self._out = folder / "client.properties", folder / "out"
        self._write(listener)
        self._query = (
            spark.readStream.format("siltstone")
            .options(store=str(cluster.folder), subscribe="t", startingOffsets="earliest", groupId="g")
            .option("kafka.client.config", str(self._file))
            .load()
            .selectExpr("cast(cast(value as string) as long) as number")
            .writeStream.format("parquet")
            .option("path", str(self._out))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def _write(self, listener: str) -> None:
        """As Kubernetes replaces a secret: at once and whole."""
        settings = self._cluster.config(listener)
        lines = [f"{name}={value}\n" for name, value in settings.items() if name.startswith(GROUPS)]
        if self._named:
            lines.append(f"siltstone.listener={listener}\n")
        beside = self._file.with_suffix(".new")
        beside.write_text("".join(lines))
        beside.chmod(0o640)
        os.replace(beside, self._file)

    @property
    def batches(self) -> int:
        return max(
            (each["batchId"] for each in self._query.recentProgress if each["numInputRows"]), default=-1
        )

    def read_more(self) -> None:
        """Waits until another micro-batch had records."""
        before, give_up = self.batches, time.monotonic() + HANG_SECONDS
        while self.batches <= before:
            self.refuse_failure()
            assert time.monotonic() < give_up, self._query.lastProgress
            time.sleep(0.1)

    def moved(self, listener: str) -> None:
        """The nodes' listener is another: the micro-batches planned before it end, the query waits for settings that
        fit, and reads on with the new file."""
        before, quiet_since, give_up = self.batches, time.monotonic(), time.monotonic() + HANG_SECONDS
        while time.monotonic() < quiet_since + QUIET_SECONDS:
            self.refuse_failure()
            assert time.monotonic() < give_up, "it reads a tail with settings that do not fit"
            if self.batches != before:
                before, quiet_since = self.batches, time.monotonic()
            time.sleep(0.1)
        self._write(listener)
        self.read_more()

    def moves_first(self, listener: str) -> None:
        """Replaces the file while the cluster's listener is still the one before."""
        self._write(listener)
        self.read_more()

    def refuse_failure(self) -> None:
        if not self._query.isActive:
            pytest.fail(f"the query has ended: {self._query.exception()}")

    def all_read(self, count: int) -> list[int]:
        """Waits until so many records were read, and returns all, in the order of their numbers."""
        give_up = time.monotonic() + HANG_SECONDS
        while True:
            self.refuse_failure()
            found = sorted(row.number for row in self._spark.read.parquet(str(self._out)).collect())
            if len(found) >= count or time.monotonic() > give_up:
                return found
            time.sleep(0.5)

    def stop(self) -> None:
        self._query.stop()


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes under a stream")
def test_ro01_a_stream_of_spark_goes_on_with_the_file_that_replaces_its_own(
    spark: Any, cluster: RollingCluster, tmp_path: Path
) -> None:
    cluster.begin()
    producer = SteadyProducer(cluster.config(PLAIN))
    producer.has_produced(100)
    stream = RollingStream(spark, cluster, tmp_path, PLAIN)
    try:
        stream.read_more()
        change_all(cluster, producer, cluster.config, stream.moved)
        assert stream.all_read(producer.next_number) == [*range(producer.next_number)], "each once"
    finally:
        stream.stop()


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes under a stream whose file came first")
def test_ro01_a_stream_of_spark_whose_file_names_the_listener_is_moved_before_the_cluster(
    spark: Any, cluster: RollingCluster, tmp_path: Path
) -> None:
    cluster.begin()
    producer = SteadyProducer(cluster.config(PLAIN))
    producer.has_produced(100)
    stream = RollingStream(spark, cluster, tmp_path, PLAIN, named=True)
    try:
        stream.read_more()
        change_all(
            cluster, producer, cluster.config, moved=lambda _: stream.read_more(), moving=stream.moves_first
        )
        assert stream.all_read(producer.next_number) == [*range(producer.next_number)], "each once"
    finally:
        stream.stop()


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes back under a stream")
def test_ro01_a_stream_of_spark_goes_back(spark: Any, cluster: RollingCluster, tmp_path: Path) -> None:
    begin_secured(cluster)
    producer = SteadyProducer(cluster.config(LOGIN))
    producer.has_produced(100)
    stream = RollingStream(spark, cluster, tmp_path, LOGIN)
    try:
        stream.read_more()
        change_back(cluster, producer, stream.moved)
        assert stream.all_read(producer.next_number) == [*range(producer.next_number)], "each once"
    finally:
        stream.stop()
