"""Checks that the workers of a Spark can run tasks, before the first job: one small job asks them.

A worker with another Python than the driver's, or without a package that tasks need, fails every task for a reason that
no unit is to blame for. Spark's text about it is long and has the cause deep inside; here one line says what to do.

The question is sent by value: a worker that lacks this package could not even load a function of it. It asks as many
workers as there are task slots. Spark gives no promise to ask each of them, so ``unfit_words`` recognises the same
causes in a job that fails later, for instance on an executor that joined meanwhile.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from siltstone.model.version import VERSION
from siltstone.spark.task_attempt import cause_in_one_line

WORKERS_ASKED_MAX = 64
"""At most so many workers are asked. A question takes some ms, and the workers of a larger cluster usually have the
same installation."""

ALWAYS_NEEDED = ("siltstone", "cramjam", "fastcrc", "lz4", "msgspec", "numpy")
"""The modules that every task may import."""

NEEDED_IF_LOADED = {"botocore": "siltstone[s3]"}
"""Modules that tasks need only if the driver has loaded them (for a bucket in S3), each with the extra that installs
it."""

_OTHER_PYTHON = re.compile(
    r".*Python in worker has different version:? \(?([\d., ]+?)\)? than that in driver:? \(?([\d., ]+\d)"
)
_NO_PYTHON = re.compile(r"Cannot run program \"[^\"]*python")
_MISSING = re.compile(r"(?:ModuleNotFoundError|ImportError): (?:No module named '([\w.]+)'|(.+))")

Answer = tuple[str, str, str, tuple[str, ...]]
"""The answer of one worker: its host, its Python, the version of its siltstone, and the modules that it cannot import,
each with the reason."""


def workers_asked(slots: int) -> int:
    """Returns how many workers are asked on a Spark with so many task slots."""
    return max(1, min(WORKERS_ASKED_MAX, slots))


def needed_modules() -> tuple[str, ...]:
    return (*ALWAYS_NEEDED, *(name for name in NEEDED_IF_LOADED if name in sys.modules))


def question_for(modules: Sequence[str]) -> Callable[[Iterator[int]], Iterator[Answer]]:
    """Returns the question in the form that ``SparkContext.runJob`` takes. It uses nothing but Python itself, and is a
    function inside a function, because Spark's pickler sends only those by value."""
    names = tuple(modules)

    def answer(_slot: Iterator[int]) -> Iterator[Answer]:
        import importlib  # noqa: PLC0415  in the worker
        import platform  # noqa: PLC0415
        import sys  # noqa: PLC0415

        missing = []
        version = ""
        for name in names:
            try:
                importlib.import_module(name)
            except Exception as failure:  # noqa: BLE001,RUF100  whatever a broken package raises
                missing.append(f"{name} ({type(failure).__name__}: {failure})")
        if not any(each.startswith("siltstone ") for each in missing):
            version = importlib.import_module("siltstone.model.version").VERSION
        yield platform.node(), sys.executable, version, tuple(missing)

    return answer


def why_unfit(answers: Sequence[Answer]) -> str | None:
    """Says why the workers cannot run tasks, and what to do; None when they can."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for host, python, version, missing in answers:
        if missing:
            names = [each.partition(" ")[0] for each in missing]
            if names[0] == "siltstone":
                reason = (
                    f"cannot import siltstone: install siltstone {VERSION} with its packages in that Python"
                )
            else:
                extras = sorted({NEEDED_IF_LOADED[name] for name in names if name in NEEDED_IF_LOADED})
                advice = f"pip install '{extras[0]}'" if extras else "install what siltstone depends on"
                reason = f"cannot import {', '.join(missing)}: {advice} in that Python"
        elif version != VERSION:
            reason = f"has siltstone {version}, and the driver {VERSION}: install the same version"
        else:
            continue
        found[reason].append(f"{python} on {host}")
    for reason, places in found.items():
        more = len(set(places)) - 1
        others = f" and {more} others" if more else ""
        return f"Spark's workers cannot run tasks: {places[0]}{others} {reason}, or set {PYTHON_ADVICE}"
    return None


PYTHON_ADVICE = "PYSPARK_PYTHON to a Python on the workers that has it, before the session starts"


def unanswered_words(cause: str) -> str:
    """Says what to do when the workers cannot even answer the question, for a reason that is not known."""
    return (
        f"Spark's workers cannot run tasks: {cause}: check PYSPARK_PYTHON and the memory of the executors; their log "
        "has the rest"
    )


def unfit_words(failure: BaseException) -> str | None:
    """Says why the workers cannot run tasks, and what to do, if that is the cause of a job that failed; else None."""
    cause = cause_in_one_line(failure)
    if other := _OTHER_PYTHON.match(cause):
        theirs, ours = (_dotted(each) for each in other.groups())
        return (
            f"Spark's workers cannot run tasks: they have Python {theirs}, and the driver {ours}: set PYSPARK_PYTHON "
            f"to a Python {ours} on the workers (here it is {sys.executable}) before the session starts"
        )
    if missing := _MISSING.match(cause):
        what = f"they lack the module {missing[1]}" if missing[1] else missing[2].strip()
        return (
            f"Spark's workers cannot run tasks: {what}: install siltstone {VERSION} with its packages in their Python, "
            f"or set {PYTHON_ADVICE}"
        )
    if _NO_PYTHON.search(cause):
        return (
            f"Spark's workers cannot run tasks: {cause}: set PYSPARK_PYTHON to the Python of the workers before the "
            "session starts"
        )
    return None


def _dotted(version: str) -> str:
    """``3, 11`` → ``3.11``: releases of Spark write a version in either way."""
    return ".".join(re.findall(r"\d+", version))
