"""A program of Spark Connect in a process of its own: ``python connect_client.py STORE SOURCE COPY TABLE FOLDER``.

It starts a Connect server beside itself, as ``SparkSession.builder.remote("local[2]")`` does, and speaks to it over
gRPC alone. It prints what each thing that it tried has given, as JSON; a failure is a text.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import siltstone
from siltstone.spark.java import find_java

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(store: str, source: str, copy: str, table: str, folder: str) -> dict[str, Any]:
    os.environ.update(
        JAVA_HOME=str(find_java().home), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"
    )
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.remote("local[2]")
    for name, value in SMALL.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    tried: dict[str, Callable[[], Any]] = {
        "read": lambda: _rows(_reader(spark.read, store, source).load()),
        "siltstone.spark.read": lambda: _rows(siltstone.spark.read(source, store=store, spark=spark)),
        "json": lambda: _json(spark, store, source),
        "write": lambda: _write(spark, store, copy),
        "stream": lambda: _stream(spark, store, source, copy, folder),
        "foreachBatch": lambda: _for_each_batch(spark, store, source, copy, folder),
        "read_table": lambda: siltstone.spark.read_table(table, store=store, spark=spark).count(),
        "named": lambda: _named(spark, store, source),
        "maintenance": lambda: _maintenance(spark, store),
    }
    found = {name: _outcome(work) for name, work in tried.items()}
    spark.stop()
    return found


def _outcome(work: Callable[[], Any]) -> Any:
    """A Python process of Spark's that did not connect within ten seconds, as on a loaded machine, is tried again."""
    while True:
        try:
            return work()
        except Exception as failure:
            traceback.print_exc()
            if "connect back" not in traceback.format_exc():
                return f"{type(failure).__name__}: {failure}"[:1_000]


def _reader(reader: Any, store: str, topic: str) -> Any:
    return reader.format("siltstone").options(store=store, subscribe=topic, startingOffsets="earliest")


def _rows(frame: Any) -> list[str]:
    return sorted(row.value.decode() for row in frame.select("value").collect())


def _json(spark: Any, store: str, topic: str) -> int:
    frame = siltstone.spark.read(topic, store=store, spark=spark, value="json", schema="id int")
    return int(frame.selectExpr("sum(value.id)").collect()[0][0])


def _write(spark: Any, store: str, copy: str) -> int:
    rows = spark.createDataFrame([("k", "w1"), ("k", "w2")], "key string, value string")
    for _ in range(2):
        writer = rows.write.format("siltstone").options(
            store=store, topic=copy, sinkName="written", batchId=0
        )
        writer.mode("append").save()
    return int(_reader(spark.read, store, copy).load().where("value like 'w%'").count())


def _stream(spark: Any, store: str, source: str, copy: str, folder: str) -> dict[str, Any]:
    rows = (
        _reader(spark.readStream, store, source)
        .option("maxOffsetsPerTrigger", 20)
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format("siltstone").options(store=store, topic=copy)
    query = writer.option("checkpointLocation", f"{folder}/stream").trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None, query.exception()
    return {
        "batches": len(query.recentProgress),
        "lag": sum(siltstone.spark.lag(query).values()),
        "backlogs": [siltstone.spark.backlog(each)["records"] for each in query.recentProgress],
        "checkpoint": str(siltstone.spark.checkpoint(f"{folder}/stream")).count(f"{source}-"),
    }


def _for_each_batch(spark: Any, store: str, source: str, copy: str, folder: str) -> int:
    def write(rows: Any, batch_id: int) -> None:
        for _ in range(2):
            siltstone.spark.write_batch(
                rows.selectExpr("concat('b', value) as value"),
                batch_id,
                sink="batches",
                topic=copy,
                store=store,
            )

    rows = _reader(spark.readStream, store, source).load()
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{folder}/batches")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None, query.exception()
    return int(_reader(spark.read, store, copy).load().where("value like 'b%'").count())


def _named(spark: Any, store: str, source: str) -> int:
    frame = siltstone.spark.read(source, store=store, spark=spark)
    assert "<table>" in frame._repr_html_()
    with siltstone.spark.named(frame):
        return int(frame.count())


def _maintenance(spark: Any, store: str) -> Any:
    with siltstone.open_store(Path(store)) as opened:
        return str(siltstone.maintenance.plan(opened, kinds=["table-export"]).run(spark))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
