"""A driver of one streaming query in a process of its own, which a test kills: ``python stream_driver.py JSON``.

The JSON has ``store``, ``topic``, ``checkpoint``, ``out`` (a folder for Parquet files, or a topic), ``limit``
(records of a micro-batch), ``mode`` of the sink (left out, the one that fits), and ``dies_at``: [batch id, step] at
which the commit of the sink kills this process. The query ends when it has read all there was when it began (trigger
availableNow).
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from pyspark_siltstone import DefaultSource
from siltstone.spark.sink.options import parse_sink_options
from siltstone.spark.sink.writers import TopicStreamWriter
from siltstone.spark.starting import LIGHT_JVM, start_session

DRIVER_VARIABLE = "STREAM_DRIVER_PID_FILE"


class DyingWriter(TopicStreamWriter):
    """Kills the driver at a step. Spark's own processes end with it."""

    dies_at: tuple[int, str] | None = None
    _batch_id = -1

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self._batch_id = batchId
        self.on_step("before")
        super().commit(messages, batchId)

    def on_step(self, name: str) -> None:
        if self.dies_at is not None and self.dies_at == (self._batch_id, name):
            os.kill(int(Path(os.environ[DRIVER_VARIABLE]).read_text()), signal.SIGKILL)
            signal.pause()


class DyingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:  # noqa: N802
        options = dict(self.options)
        batch_id, step = json.loads(options.pop("dies.at"))
        request = parse_sink_options(options, overwrite=overwrite, is_stream=True)
        writer = DyingWriter(self.open_source, request, schema)
        writer.dies_at = (batch_id, step)
        return writer


def main(job: dict[str, Any]) -> None:
    Path(os.environ[DRIVER_VARIABLE]).write_text(str(os.getpid()))
    session = start_session(
        "local[2]",
        "stream driver",
        {**LIGHT_JVM, "spark.sql.shuffle.partitions": "1", "spark.python.use.daemon": "true"},
    )
    session.dataSource.register(DyingSource)
    rows = session.readStream.format("siltstone").options(
        store=job["store"],
        subscribe=job["topic"],
        startingOffsets="earliest",
        maxOffsetsPerTrigger=job["limit"],
    )
    out = rows.load()
    if "/" in job["out"]:
        writer = out.writeStream.format("parquet").option("path", job["out"])
    else:
        writer = (
            out.select("key", "value")
            .writeStream.format("dying")
            .options(store=job["store"], topic=job["out"], **{"mode": job["mode"]} if "mode" in job else {})
            .option("dies.at", json.dumps(job.get("dies_at", [-1, ""])))
        )
    query = writer.option("checkpointLocation", job["checkpoint"]).trigger(availableNow=True).start()
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
