"""The process of ``foreign_spark``. Each line of its input is a statement of SQL in JSON, each line of its output the
rows, or the error. It imports the pyspark of PYTHONPATH and nothing of ours."""

import json
import os
import sys
from typing import Any

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
OF_EACH_SESSION = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
ERROR_LENGTH_MAX = 2_000


def main() -> None:
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the JVM prints is no answer
    builder = SparkSession.builder.master("local[2]").appName("foreign").config("spark.jars", sys.argv[1])
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    first = builder.getOrCreate()
    sessions: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["session"] not in sessions:
            made = sessions[asked["session"]] = first.newSession()
            for name, value in (OF_EACH_SESSION | asked["settings"]).items():
                made.conf.set(name, value)
        answers.write(json.dumps(answer(sessions[asked["session"]], asked["sql"]), default=str) + "\n")
        answers.flush()
    first.stop()


def answer(session: Any, statement: str) -> dict[str, Any]:
    try:
        return {"rows": [row.asDict(recursive=True) for row in session.sql(statement).collect()]}
    except Exception as trouble:  # of the JVM: whatever it is, the caller wants to see it
        return {"error": " ".join(str(trouble).split())[:ERROR_LENGTH_MAX]}


if __name__ == "__main__":
    main()
