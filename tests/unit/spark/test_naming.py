"""The names that our scans get in Spark, on a session that only records what is registered."""

import gc
import weakref
from typing import Any

import pytest

from pyspark_siltstone import DefaultSource
from siltstone.spark import naming
from siltstone.spark.naming import FORMAT, JOB_DESCRIPTION, format_named, named, show_in_notebooks


class Session:
    """A session with a context, in one."""

    def __init__(self) -> None:
        self.registered: list[Any] = []
        self.properties: dict[str, str | None] = {}
        self.dataSource = self._jsparkSession = self

    def register(self, source: Any) -> None:
        self.registered.append(source)

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802  Spark's name
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802
        self.properties[name] = value


class Frame:
    """A DataFrame of a session without eager evaluation."""

    rows: str | None = None
    dtypes = (("key", "binary"), ("a<b", "string"))

    def _repr_html_(self) -> str | None:
        return self.rows


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Session()
    monkeypatch.setattr(naming, "active_context", lambda: made)
    return made


def test_a_scan_is_read_by_a_format_of_its_name_which_is_registered_once(session: Any) -> None:
    assert (
        format_named(session, "scan t", DefaultSource)
        == format_named(session, "scan t", DefaultSource)
        == "siltstone: scan t"
    )
    (source,) = session.registered
    assert issubclass(source, DefaultSource) and source.name() == "siltstone: scan t"
    assert format_named(Session(), "scan t", DefaultSource) == "siltstone: scan t", (
        "each session has names of its own"
    )


def test_names_are_bounded(session: Any) -> None:
    assert [format_named(session, name, DefaultSource, 2) for name in "abca"] == [
        "siltstone: a", "siltstone: b", FORMAT, "siltstone: a",
    ]  # fmt: skip
    assert len(session.registered) == 2


def test_spark_connect_has_the_plain_format_and_no_names_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "active_context", lambda: None)
    session: Any = Session()
    assert format_named(session, "scan t", DefaultSource) == FORMAT and not session.registered
    with named("anything"):
        pass


def test_jobs_have_the_name_inside_the_block_only(session: Any) -> None:
    session.properties[JOB_DESCRIPTION] = "mine"
    frame: Any = Frame()
    show_in_notebooks(frame, "scan t")
    for work in ("scan t", "siltstone: scan t", frame):
        with named(work):
            assert session.properties[JOB_DESCRIPTION] == "siltstone: scan t"
        assert session.properties[JOB_DESCRIPTION] == "mine"
    with pytest.raises(ZeroDivisionError), named("scan t"):
        raise ZeroDivisionError
    assert session.properties[JOB_DESCRIPTION] == "mine"
    other: Any = Frame()
    with pytest.raises(TypeError, match="give a text, or a DataFrame of"), named(other):
        pass


def test_a_notebook_shows_the_columns_unless_spark_shows_rows() -> None:
    frame: Any = Frame()
    show_in_notebooks(frame, "scan <t>")
    html = frame._repr_html_()
    assert html.startswith("<p>scan &lt;t&gt;</p><table><tr><th>column</th><th>type</th></tr>")
    assert "<tr><td>a&lt;b</td><td>string</td></tr></table>" in html
    frame.rows = "<table>rows</table>"
    assert frame._repr_html_() == "<table>rows</table>"


def test_what_a_notebook_shows_does_not_keep_the_frame() -> None:
    frame: Any = Frame()
    show_in_notebooks(frame, "scan t")
    shown, watched = frame._repr_html_, weakref.ref(frame)
    gc.disable()  # a cycle would keep the pin of the frame renewed until the next collection
    try:
        del frame
        assert watched() is None and shown() is None
    finally:
        gc.enable()
