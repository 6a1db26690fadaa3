"""The cause of a failed Spark job, in one line, from the pages of Java and Python traceback that Spark gives."""

import re

from siltstone.spark.unit_attempt import CAUSE_MARK

_MARKED = re.compile(f"^.*TaskFailed: {CAUSE_MARK}(.+)$", re.MULTILINE)
_JAVA = re.compile(r"^: (.+)$", re.MULTILINE)  # py4j puts the exception's own text behind ": "


def cause_in_one_line(failure: BaseException) -> str:
    """What the task raised when it was the task; else what Spark says, such as a worker that died."""
    text = str(failure)
    if marked := _MARKED.findall(text):
        return str(marked[-1]).strip()
    if java := _JAVA.search(text):
        return java[1].strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), type(failure).__name__)
