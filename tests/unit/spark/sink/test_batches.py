"""Which options the batch of a query is written with. The rows are no DataFrame: they record what is asked of them."""

from pathlib import Path
from typing import Any

from siltstone.spark.sink.batches import QUERY_ID, write_batch


class Rows:
    """A DataFrame, its writer and its session in one. ``query``: the id of the query; an error is raised."""

    def __init__(self, query: str | Exception | None = None) -> None:
        self._query = query
        self.asked: list[Any] = []
        self.write = self.sparkSession = self.sparkContext = self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802  Spark's name
        assert name == QUERY_ID == "sql.streaming.queryId"
        if isinstance(self._query, Exception):
            raise self._query
        return self._query

    def format(self, name: str) -> "Rows":
        self.asked.append(name)
        return self

    def options(self, **options: str) -> "Rows":
        self.asked.append(options)
        return self

    def mode(self, name: str) -> "Rows":
        self.asked.append(name)
        return self

    def save(self) -> None:
        self.asked.append("saved")


def options_of(rows: Rows) -> dict[str, str]:
    written_as, options, mode, saved = rows.asked
    assert (written_as, mode, saved) == ("siltstone", "append", "saved")
    return options


def test_the_options_name_store_sink_batch_and_query_as_texts() -> None:
    rows = Rows("5b0f")
    write_batch(rows, 7, sink="late-out", store=Path("/x/store"), topic="late", compression="zstd")
    assert options_of(rows) == {
        "store": "/x/store", "sinkName": "late-out", "batchId": "7", "queryId": "5b0f", "topic": "late",
        "compression": "zstd",
    }  # fmt: skip


def test_without_a_topic_the_rows_name_theirs_and_outside_of_a_query_there_is_no_query() -> None:
    for rows in (Rows(None), Rows(AttributeError("Spark Connect has no context"))):
        write_batch(rows, 0, sink="s", store="folder")
        assert options_of(rows) == {"store": "folder", "sinkName": "s", "batchId": "0"}
