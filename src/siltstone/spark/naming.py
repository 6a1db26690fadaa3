"""Names our reads and writes for Spark's pages and for notebooks.

The name of a scan is that of its node in the plans and in the page *SQL / DataFrame* (``BatchScan siltstone: scan
flights, 12 objects, 340.0 MiB``). Spark shows there under which name the format was looked up, so ``format_named``
registers the format under the scan's name. A job takes its name from the thread that starts it: ``named`` sets it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from siltstone.spark.starting import active_context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "siltstone"
PREFIX = "siltstone: "
JOB_DESCRIPTION = "spark.job.description"

NAMES_MAX = 1_000
"""The most names of one session. Spark keeps each of them, some kilobytes, until the session ends."""

_registered: "WeakKeyDictionary[SparkSession, set[str]]" = WeakKeyDictionary()


def format_named(spark: "SparkSession", name: str, source: type, names_max: int = NAMES_MAX) -> str:
    """Returns the format to read with so that Spark shows this name: the data source ``source`` is registered under it.
    It is the plain format on Spark Connect, whose server would have to import the class, and for a session that has too
    many names."""
    if not _is_classic(spark):
        return FORMAT
    names, shown = _registered.setdefault(spark, set()), PREFIX + name
    if shown not in names:
        if len(names) >= names_max:
            return FORMAT
        spark.dataSource.register(type("NamedSource", (source,), {"name": classmethod(lambda _: shown)}))
        names.add(shown)
    return shown


@contextmanager
def named(work: "DataFrame | str") -> Iterator[None]:
    """Gives the Spark jobs of this thread a name while the block runs: a text, or the name of a DataFrame that
    ``siltstone.spark.read`` returned. Does nothing on Spark Connect, where jobs have no descriptions.

    >>> with siltstone.spark.named(flights):
    ...     flights.groupBy("partition").count().show()
    """
    text = work if isinstance(work, str) else getattr(work, "siltstone_name", None)
    if text is None:
        raise TypeError(
            "give a text, or a DataFrame of siltstone.spark.read: other DataFrames have no such name"
        )
    context = active_context()
    if context is None:
        yield
        return
    before = context.getLocalProperty(JOB_DESCRIPTION)
    context.setLocalProperty(JOB_DESCRIPTION, text if text.startswith(PREFIX) else PREFIX + text)
    try:
        yield
    finally:
        context.setLocalProperty(JOB_DESCRIPTION, before)


def show_in_notebooks(frame: "DataFrame", name: str) -> None:
    """Gives the DataFrame its name, and a table of its columns for notebooks, which runs no job. With Spark's own
    ``spark.sql.repl.eagerEval.enabled`` notebooks show the first rows, as of any DataFrame."""
    frame.siltstone_name = name
    frame._repr_html_ = _html_of(
        ref(frame), name
    )  # the frame's pin is renewed until nothing refers to the frame


def _html_of(frame: "ref[DataFrame]", name: str) -> Callable[[], str | None]:
    def html() -> str | None:
        shown = frame()
        if shown is None:
            return None
        rows: str | None = type(shown)._repr_html_(shown)
        return rows or _columns_html(name, shown.dtypes)

    return html


def _columns_html(name: str, columns: list[tuple[str, str]]) -> str:
    body = "".join(f"<tr><td>{escape(each)}</td><td>{escape(kind)}</td></tr>" for each, kind in columns)
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<p>{escape(name)}</p><table>{head}{body}</table><p>Nothing is read before an action, such as show().</p>"


def _is_classic(spark: Any) -> bool:
    return active_context() is not None and hasattr(spark, "_jsparkSession")
