"""The one line that a person reads, out of texts that Spark gave."""

from siltstone.spark.task_attempt import cause_in_one_line

TASK_RAISED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 3.0 (TID 9) (127.0.0.1 executor driver): org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "unit_attempt.py", line 50, in _result
ValueError: at 4096
is damaged

The above exception was the direct cause of the following exception:

siltstone.spark.task_attempt.TaskFailed: task failed: ValueError: at 4096 is damaged

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:600)
Driver stacktrace:
"""

WORKER_DIED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner
"""


OTHER_PYTHON = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/worker.py", line 4174, in invoke_udf
    check_python_version(init_info.python_version)
  File "/x/pyspark.zip/pyspark/worker_util.py", line 93, in check_python_version
    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: \
3.11 than that in driver: 3.12, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set.
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)
Caused by: something: else
"""


def test_what_a_worker_raised_that_is_no_task() -> None:
    assert cause_in_one_line(Exception(OTHER_PYTHON)) == (
        "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.11 than that in "
        "driver: 3.12, PySpark cannot run with different minor versions. Please check environment variables "
        "PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set."
    )


def test_a_package_that_the_workers_lack_is_named() -> None:
    text = OTHER_PYTHON.partition("pyspark.errors")[0] + "ModuleNotFoundError: No module named 'siltstone'\n"
    assert cause_in_one_line(Exception(text)) == "ModuleNotFoundError: No module named 'siltstone'"


def test_a_line_that_ends_in_a_colon_is_given_with_what_follows() -> None:
    text = "An error occurred.\n: java.io.IOException: Cannot run program:\n  no such file\n\tat java.lang.X"
    assert cause_in_one_line(Exception(text)) == "java.io.IOException: Cannot run program: no such file"


def test_what_the_task_raised() -> None:
    assert cause_in_one_line(Exception(TASK_RAISED)) == "ValueError: at 4096 is damaged"


def test_what_spark_says_when_no_task_raised() -> None:
    assert cause_in_one_line(Exception(WORKER_DIED)) == (
        "org.apache.spark.SparkException: Job aborted due to stage failure: "
        "Python worker exited unexpectedly (crashed)"
    )


def test_the_first_line_of_anything_else() -> None:
    assert cause_in_one_line(Exception("\n [GATEWAY] exited\nmore")) == "[GATEWAY] exited"


def test_the_kind_of_one_without_words() -> None:
    assert cause_in_one_line(KeyError()) == "KeyError"
