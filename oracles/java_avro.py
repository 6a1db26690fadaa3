"""Java's Avro, which pyspark ships: reads values with their logical types."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from oracles.java_artifacts import PYSPARK_JARS
from oracles.java_machine import JavaMachine, running_java_machine

_OF_TIME = (
    "Date", "TimeMillis", "TimeMicros", "TimestampMillis", "TimestampMicros", "LocalTimestampMillis",
    "LocalTimestampMicros",
)  # fmt: skip


class JavaAvro:
    """A reader of single values. Times are microseconds since 1970 or since midnight, dates are days, and bytes are
    bytes."""

    def __init__(self, machine: JavaMachine) -> None:
        self._machine = machine
        self._avro = machine.classes.org.apache.avro
        self._data = self._avro.generic.GenericData()
        of_time = self._avro.data.TimeConversions
        kinds = [getattr(of_time, f"{name}Conversion") for name in _OF_TIME]
        for kind in (self._avro.Conversions.DecimalConversion, self._avro.Conversions.UUIDConversion, *kinds):
            self._data.addLogicalTypeConversion(kind())

    def read(self, schema: str, value: bytes) -> Any:
        parsed = self._avro.Schema.Parser().parse(schema)
        reader = self._avro.generic.GenericDatumReader(parsed, parsed, self._data)
        return self._plain(reader.read(None, self._avro.io.DecoderFactory.get().binaryDecoder(value, None)))

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, str | int | float | bytes | Decimal):
            return value
        java = self._machine.classes.java
        match value.getClass().getName():
            case "java.time.Instant":
                return value.getEpochSecond() * 1_000_000 + value.getNano() // 1_000
            case "java.time.LocalDateTime":
                return self._plain(value.toInstant(java.time.ZoneOffset.UTC))
            case "java.time.LocalDate":
                return value.toEpochDay()
            case "java.time.LocalTime":
                return value.toNanoOfDay() // 1_000
            case "java.nio.HeapByteBuffer":
                return bytes(value.array())
            case "org.apache.avro.generic.GenericData$Fixed":
                return bytes(value.bytes())
        return str(value.toString())


@contextmanager
def running_java_avro() -> Iterator[JavaAvro]:
    """Starts the reader. Raises JavaArtifactsUnavailable."""
    jars = [
        path
        for name in ("avro-1*.jar", "jackson-*.jar", "slf4j-api-*.jar")
        for path in PYSPARK_JARS.glob(name)
    ]
    with running_java_machine(tuple(jars)) as machine:
        yield JavaAvro(machine)
