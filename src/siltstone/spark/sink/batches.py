"""``write_batch`` writes a DataFrame of ``foreachBatch`` into topics, exactly once.

Spark calls a ``foreachBatch`` function again with the same batch id when it does not know whether the batch was
written; under the same sink and batch id nothing is written twice. Several sinks may take rows of one batch.
"""

from pathlib import Path
from typing import Any

from siltstone.spark.naming import named

QUERY_ID = "sql.streaming.queryId"


def write_batch(
    rows: Any, batch_id: int, *, sink: str, store: Path | str, topic: str | None = None, **options: str
) -> None:
    """Writes the DataFrame ``rows`` as batch ``batch_id`` of the sink named ``sink``; does nothing if that batch is
    done already.

    >>> flights.writeStream.foreachBatch(
    ...     lambda rows, batch_id: write_batch(rows, batch_id, sink="late-out", topic="late", store="my-store")
    ... )

    ``topic`` is the topic of all rows; without it the column ``topic`` names the topic of each row. ``options`` are
    further options of the writer, such as ``compression``. Spark's pages show the job by sink, batch and topic. Raises
    what Spark raises when a job fails; the text has the sink's own error.
    """
    options_of_all = {"store": str(store), "sinkName": sink, "batchId": str(batch_id), **options}
    if topic is not None:
        options_of_all["topic"] = topic
    if query_id := _query_id(rows):
        options_of_all["queryId"] = query_id
    work = f"write batch {batch_id} of sink {sink}" + (f" into {topic}" if topic is not None else "")
    with named(work):
        rows.write.format("siltstone").options(**options_of_all).mode("append").save()


def _query_id(rows: Any) -> str | None:
    """Returns the id of the query whose batch this is; None outside of a query, and on Spark Connect."""
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except Exception:
        return None
    return None if found is None else str(found)
