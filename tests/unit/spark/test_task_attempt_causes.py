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
