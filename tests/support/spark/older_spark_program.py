"""Runs in the Python of an older pyspark: source, sink, stream and table of one store. Prints what it saw as JSON.

    python older_spark_program.py STORE TOPIC CHECKPOINT

The topic ``COPY`` is there, and the topic is kept as a table.
"""

import json
import sys
from typing import Any

import pyspark

import siltstone.spark

COPY = "copy"


def tried(does: Any) -> Any:
    """Returns what it returns, or the last line of what it raises."""
    try:
        return does()
    except Exception as cause:
        lines = [
            line for line in str(cause).splitlines() if line.strip() and not line.startswith(("  ", "\tat"))
        ]
        named = [line for line in lines if "siltstone" in line or "Refused" in line]
        return {"refused": f"{type(cause).__name__}: {(named or lines or [''])[-1]}"[:600]}


def main(store: str, topic: str, checkpoint: str) -> None:
    spark = siltstone.spark.session("local[1]")
    options = {"store": store, "subscribe": topic}

    def count() -> int:
        return int(spark.read.format("siltstone").options(**options).load().count())

    def found() -> list[Any]:
        frame = spark.read.format("siltstone").options(**options, value="json", columns="infer").load()
        return [sorted(frame.columns), frame.selectExpr("sum(n)").collect()[0][0]]

    def written() -> int:
        frame = spark.range(5).selectExpr("cast(id as string) as value")
        frame.write.format("siltstone").mode("append").options(store=store, topic=COPY).save()
        return int(siltstone.spark.read(COPY, store=store, spark=spark).count())

    def streamed() -> int:
        reader = spark.readStream.format("siltstone").options(**options, startingOffsets="earliest").load()
        writer = reader.select("value").writeStream.format("siltstone").options(store=store, topic=COPY)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination(120)
        return int(siltstone.spark.count(COPY, store=store, spark=spark))

    def table() -> int:
        return int(siltstone.spark.read_table(topic, store=store, spark=spark).count())

    steps = {"count": count, "found": found, "written": written, "streamed": streamed, "table": table}
    said = {name: tried(step) for name, step in steps.items()}
    print(json.dumps({"version": pyspark.__version__, **said}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
