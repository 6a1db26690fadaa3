"""What benchmarks of tables do again and again: a whole topic is exported to its table, and then to another one."""

from pathlib import Path
from typing import Any

import siltstone
from benchmarks.support.topics import TOPIC, FilledTopic
from siltstone.cli.demo.kafka_client import configure
from siltstone.tables.progress import remove_columns, remove_progress


def export_whole(store: Any, spark: Any) -> list[Any]:
    """Exports the topic of an open store on a Spark until nothing is left. Returns the reports of the rounds."""
    rounds: list[Any] = []
    while True:
        plan = siltstone.maintenance.plan(store, kinds=["table-export"], topics=[TOPIC], force=True)
        report = plan.run(spark)
        assert report.is_well, report
        done = report.runs[0].done
        if not done:
            return rounds
        rounds += done


def begin_table(topic: FilledTopic, name: str, **table: str) -> Path:
    """Gives the topic a new table, and forgets what is known of the one before. ``table`` has configurations, such as
    ``value`` for siltstone.table.value, and ``key_columns``. Returns the folder of the table."""
    with siltstone.open_store(topic.store) as store:
        image = store.metadata.refresh()
        for command in (remove_progress, remove_columns):
            store.metadata.execute(command(image.topic_ids[TOPIC]))
    values = {**table, "name": name}
    named = {f"siltstone.table.{key.replace('_', '.')}": text for key, text in values.items()}
    configure(topic.address, TOPIC, named)
    return topic.store / "tables" / name.replace(".", "/")
