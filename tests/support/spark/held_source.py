"""The format ``siltstone`` with tasks that are held until a test opens the gate: a task of a reader when it has given
rows, a task of a sink when it has staged its rows and not reported them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark_siltstone import DefaultSource
from siltstone.spark.sink.options import parse_sink_options
from siltstone.spark.sink.writers import TopicStreamWriter, TopicWriter
from siltstone.spark.source.data_source import TopicReader
from siltstone.spark.source.options import parse_options
from support.spark.held_tasks import hold


class HeldSource(DefaultSource):
    """The option ``gate`` is the folder of the ``Gate``."""

    @classmethod
    def name(cls) -> str:
        return "held-siltstone"

    def __init__(self, options: dict[str, str]) -> None:
        given = dict(options)
        self.gate = given.pop("gate")
        super().__init__(given)

    def reader(self, schema: Any) -> Any:
        reader = HeldReader(self, self._with_columns(schema, parse_options(self.options)))
        reader.gate = self.gate
        return reader

    def writer(self, schema: Any, overwrite: bool) -> Any:
        request = parse_sink_options(self.options, overwrite=overwrite, is_stream=False)
        writer = HeldWriter(self.open_source, request, schema)
        writer.gate = self.gate
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  Spark's name
        request = parse_sink_options(self.options, overwrite=overwrite, is_stream=True)
        writer = HeldStreamWriter(self.open_source, request, schema)
        writer.gate = self.gate
        return writer


class HeldReader(TopicReader):
    gate = ""

    def read(self, partition: Any) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            hold(Path(self.gate))


class _HeldWrite:
    """The part that both writers share. ``write`` of the class behind it stages the rows."""

    gate = ""

    def write(self, iterator: Iterator[Any]) -> Any:
        writer: Any = super()
        staged = writer.write(iterator)
        hold(Path(self.gate))
        return staged


class HeldWriter(_HeldWrite, TopicWriter):
    pass


class HeldStreamWriter(_HeldWrite, TopicStreamWriter):
    pass
