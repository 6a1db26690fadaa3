"""The process of ``foreign_streams``: Spark 4.0.1 with queries that read a topic through its connector for Kafka, and
write tables in the ways that the documentation of Delta and Iceberg shows.

Each line of its input is a command in JSON, each line of its output the answer. It imports the pyspark of PYTHONPATH
and nothing of ours.

======== =====================================================================================================
way      what a batch does
======== =====================================================================================================
merge    ``foreachBatch``: the newest event of each key, by ``MERGE`` into a Delta table
append   ``foreachBatch``: appended to an Iceberg table
once     ``foreachBatch``: appended unless the table has rows of this batch, which carry its number
sink     Iceberg's own sink, ``writeStream.format("iceberg")``
======== =====================================================================================================
"""

import json
import os
import sys
from typing import Any

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""As somebody sets them who knows that the machine has two cores."""
ENVELOPE = "op string, before struct<{columns}>, after struct<{columns}>"


def main() -> None:
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the JVM prints is no answer
    builder = SparkSession.builder.master("local[2]").appName("foreign").config("spark.jars", sys.argv[1])
    for name, value in {**SETTINGS, "spark.sql.catalog.lake.warehouse": sys.argv[2]}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        answers.write(json.dumps(answer(session, json.loads(line)), default=str) + "\n")
        answers.flush()
    session.stop()


def answer(session: Any, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        if "sql" in asked:
            return {"rows": [row.asDict(recursive=True) for row in session.sql(asked["sql"]).collect()]}
        queries = [started(session, each) for each in asked["queries"]]
        if asked["waits"]:
            for query in queries:
                query.awaitTermination()
        return {"rows": []}
    except Exception as trouble:  # of the JVM: whatever it is, the caller wants to see it
        return {"error": " ".join(str(trouble).split())[:2_000]}


def started(session: Any, asked: dict[str, Any]) -> Any:
    """Starts a query. ``per_batch``: records of a micro-batch; ``ends``: it ends when it has read what is there."""
    options = {
        "kafka.bootstrap.servers": asked["servers"],
        "subscribe": asked["topic"],
        "startingOffsets": "earliest",
    }
    if asked["per_batch"]:
        options["maxOffsetsPerTrigger"] = str(asked["per_batch"])
    read = session.readStream.format("kafka").options(**options).load()
    way, into = asked["way"], asked["into"]
    if way != "merge":
        read = read.selectExpr(
            "cast(key as string) as key", "cast(value as string) as value", "partition", "offset"
        )
    writer = read.writeStream.option("checkpointLocation", asked["checkpoint"])
    writer = (
        writer.trigger(availableNow=True)
        if asked["ends"]
        else writer.trigger(processingTime="500 milliseconds")
    )
    if way == "sink":
        return writer.format("iceberg").outputMode("append").option("fanout-enabled", "true").toTable(into)
    batches = {"merge": merging, "append": appending, "once": appending_once}[way]
    return writer.foreachBatch(batches(into, asked.get("columns", ""))).start()


def appending(into: str, _: str) -> Any:
    def append(batch: Any, _: int) -> None:
        batch.writeTo(into).append()

    return append


def appending_once(into: str, _: str) -> Any:
    def append(batch: Any, batch_id: int) -> None:
        from pyspark.sql.functions import lit

        if batch.sparkSession.table(into).where(f"batch = {batch_id}").isEmpty():
            batch.withColumn("batch", lit(batch_id)).writeTo(into).append()

    return append


def merging(into: str, columns: str) -> Any:
    names = [each.split()[0] for each in columns.split(", ")]
    key = names[0]

    def merge(batch: Any, _: int) -> None:
        from pyspark.sql import Window
        from pyspark.sql.functions import col, desc, from_json, row_number

        event = from_json(col("value").cast("string"), ENVELOPE.format(columns=columns)).alias("event")
        rows = (
            batch.where("value is not null").select(event, "offset")
            .selectExpr(
                f"coalesce(event.after.{key}, event.before.{key}) as of_key", "event.op", "event.after.*", "offset"
            )
            .withColumn("newer", row_number().over(Window.partitionBy("of_key").orderBy(desc("offset"))))
            .where("newer = 1")
        )  # fmt: skip
        rows.createOrReplaceTempView("updates")
        assigned = ", ".join(f"t.{name} = s.{name}" for name in names)
        listed, given = ", ".join(names), ", ".join(f"s.{name}" for name in names)
        rows.sparkSession.sql(
            f"MERGE INTO delta.`{into}` t USING updates s ON t.{key} = s.of_key "
            f"WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({listed}) VALUES ({given})"
        )

    return merge


if __name__ == "__main__":
    main()
