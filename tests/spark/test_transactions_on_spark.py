"""DataFrames and streams of topics with transactions, on a real Spark (TP49)."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import siltstone
from support.kafka.partition_writers import Writers, consumed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.nightly(tried="reads of transactions on Spark")
def test_tp49_a_data_frame_and_a_stream_have_each_committed_record_once(spark: Any, tmp_path: Path) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    with siltstone.Broker(tmp_path / "store") as broker:
        writers = Writers(broker)

        def streamed() -> list[bytes]:
            source = spark.readStream.format("siltstone").option("store", str(broker.folder))
            source = source.option("subscribe", "t").option("startingOffsets", "earliest")
            rows = source.option("maxOffsetsPerTrigger", "4").load()
            query = rows.select("offset", "value").writeStream.option("checkpointLocation", str(checkpoint))
            query.trigger(availableNow=True).start(str(files), format="parquet").awaitTermination()
            found = pq.read_table(files).sort_by("offset")
            return found.column("value").to_pylist()

        def framed(isolation: str) -> list[bytes]:
            read = siltstone.spark.read("t", store=broker.folder, isolation=isolation)
            return [bytes(row.value) for row in read.orderBy("offset").collect()]

        writers.write("t", "a", 5)
        writers.end("a", commits=True)
        broker.flush()
        writers.write("t", "b", 5)
        writers.end("b", commits=False)
        writers.write("t", count=2)
        writers.write("t", "c", 3)
        writers.write("t")
        for isolation in ("committed", "uncommitted"):
            assert framed(isolation) == consumed(broker, "t", isolation)
        assert streamed() == consumed(broker, "t", "committed")
        broker.flush()
        writers.end("c", commits=True)
        writers.write("t", "b", 2)
        writers.end("b", commits=False)
        writers.write("t")
        expected = consumed(broker, "t", "committed")
        assert len(expected) == 12
        assert framed("committed") == streamed() == expected
