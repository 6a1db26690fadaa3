"""``siltstone.scan`` with decoded values, with time ranges, and with a pin that is renewed."""

import gc
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.result import Scan
from siltstone.value_formats.failures import BadValueFound, RegistryNotReachable
from support.kafka.quiet_client import QUIET

START = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    folder = tmp_path_factory.mktemp("scan-options") / "store"
    with siltstone.Broker(folder, settings={"engine.upload.block_size_bytes": "4KiB"}) as running:
        yield running


def create(broker: siltstone.Broker, name: str, partitions: int = 1, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(60)
    return name


def produce(
    broker: siltstone.Broker, topic: str, values: list[bytes | None], times_ms: list[int] | None = None
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20, **QUIET})
    for number, value in enumerate(values):
        at_ms = times_ms[number] if times_ms else int(START.timestamp() * 1000) + number
        producer.produce(topic, value, partition=0, timestamp=at_ms)
    assert producer.flush(60) == 0


def test_json_is_inferred_and_a_bad_value_fails_the_scan_by_its_offset(broker: siltstone.Broker) -> None:
    topic = create(broker, "json")
    rows = [{"carrier": "UA", "delay": 2}, {"carrier": "AA", "delay": 3.5, "tags": ["x"]}]
    produce(broker, topic, [json.dumps(row).encode() for row in rows] + [None])
    broker.flush()
    found = siltstone.scan(topic, store=broker.folder, columns=["offset", "value"], value="json")
    table = found.to_arrow()
    assert table.schema == found.schema
    assert table["value"].to_pylist() == [
        {"carrier": "UA", "delay": 2.0, "tags": None}, {"carrier": "AA", "delay": 3.5, "tags": ["x"]}, None,
    ]  # fmt: skip
    produce(broker, topic, [b"nonsense", b'{"carrier": 7}'])  # these are in no object yet
    with pytest.raises(BadValueFound, match="offset 3 of json-0 cannot be decoded: JSON is malformed"):
        siltstone.scan(topic, store=broker.folder, columns="value", value="json").to_arrow()
    kind = table.schema.field("value").type
    lenient = siltstone.scan(
        topic, store=broker.folder, columns="value", value="json", bad_values="null", schema=kind
    )
    assert lenient.to_arrow()["value"].null_count == 3
    assert (lenient.bad_values.count, lenient.bad_values.first.split(":")[0]) == (2, "offset 3 of json-0")
    typed = siltstone.scan(
        topic, store=broker.folder, end=2, value="json", schema=pa.schema([("carrier", pa.string())])
    )
    assert typed.to_pandas()["value"].tolist() == [{"carrier": "UA"}, {"carrier": "AA"}]
    assert (
        siltstone.scan(topic, store=broker.folder, columns="offset", value="json").to_polars()["offset"].len()
        == 5
    )


def test_avro_with_a_folder_of_schemas(broker: siltstone.Broker, tmp_path: Path) -> None:
    topic = create(broker, "avro")
    old = {"type": "record", "name": "F", "fields": [{"name": "id", "type": "int"}]}
    new = {**old, "fields": [*old["fields"], {"name": "gate", "type": ["null", "string"], "default": None}]}
    values: list[bytes] = []
    for number, schema in enumerate((old, new), 1):
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": number, "gate": "B7"})
        values.append(struct.pack(">bI", 0, number) + out.getvalue())
    (tmp_path / "subjects.json").write_text('{"avro-value": [1, 2]}')
    produce(broker, topic, values)
    words = {"store": broker.folder, "columns": "value", "value": "avro"}
    found = siltstone.scan(topic, registry=str(tmp_path), **words).to_arrow()["value"].to_pylist()
    assert found == [{"id": 1, "gate": None}, {"id": 2, "gate": "B7"}]
    (tmp_path / f"{UUID(int=2)}.avsc").write_text(json.dumps(new))
    header = [("__value_schema_id", b"\1" + UUID(int=2).bytes)]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, value=values[1][5:], headers=header)  # as newer serializers do
    assert producer.flush(60) == 0
    again = siltstone.scan(topic, registry=str(tmp_path), **words).to_arrow()["value"].to_pylist()
    assert again == [*found, found[1]]
    with pytest.raises(RegistryNotReachable):
        siltstone.scan(topic, registry="http://127.0.0.1:1", **words)


def test_what_contradicts_itself_is_refused(broker: siltstone.Broker) -> None:
    topic = create(broker, "contradictions")
    for words in (
        {"registry": "x"}, {"value": "yaml"}, {"timestamp_from": START, "timestamp_until": START},
        {"timestamp_from": datetime(2013, 1, 1)}, {"timestamp_until": 5},
    ):  # fmt: skip
        with pytest.raises(ScanRefused):
            siltstone.scan(topic, store=broker.folder, **words)


def times_of(scan: Scan) -> list[int]:
    return [int(each.timestamp() * 1000) for each in scan.to_arrow()["timestamp"].to_pylist()]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_time_range_takes_each_record_by_its_own_time(broker: siltstone.Broker, kind: str) -> None:
    topic = create(broker, f"times-{kind}", **{"message.timestamp.type": kind})
    base = int(START.timestamp() * 1000)
    produce(broker, topic, [b"x"] * 60, [base + number * 7 % 60 for number in range(60)])  # out of order
    broker.flush()
    produce(broker, topic, [b"x"] * 20, [base + number for number in range(20)])
    everything = times_of(siltstone.scan(topic, store=broker.folder))
    assert len(everything) == 80
    ordered = sorted(everything)
    low, high = ordered[20], ordered[60]
    low_time, high_time = (datetime.fromtimestamp(each / 1000, UTC) for each in (low, high))
    words = {"store": broker.folder, "timestamp_from": low_time, "timestamp_until": high_time}
    wanted = [each for each in everything if low <= each < high]
    assert times_of(siltstone.scan(topic, **words)) == wanted
    assert times_of(siltstone.scan(topic, trust_batch_timestamps=True, **words)) == wanted


def test_sr24_blocks_that_say_they_are_older_are_passed_over_only_where_they_are_believed(
    broker: siltstone.Broker,
) -> None:
    """Three blocks; with ``trust_batch_timestamps`` those whose headers are older are not even read."""
    topic = create(broker, "old-blocks")
    base = int(START.timestamp() * 1000)
    for day in range(3):
        produce(broker, topic, [b"x" * 200] * 50, [base + day * 86_400_000 + number for number in range(50)])
        broker.flush()
    from_second = {"store": broker.folder, "timestamp_from": START + timedelta(days=1)}
    for trusts, pieces in ((False, 3), (True, 2)):
        found = siltstone.scan(topic, trust_batch_timestamps=trusts, **from_second)
        assert sum(len(unit.pieces) for unit in found.plan.units) == pieces
        assert len(times_of(found)) == 100
    validated = create(broker, "validated", **{"siltstone.record.validation": "full"})
    produce(broker, validated, [b"x"] * 5, [base] * 5)
    broker.flush()
    assert siltstone.scan(validated, **from_second).plan.object_count == 0, "the broker compared the header"


def pins(broker: siltstone.Broker) -> dict[str, int]:
    with siltstone.open_store(broker.folder) as store:
        image = store.metadata.refresh()
        return {token: pin.until_ms for token, pin in image.pins.items() if not token.startswith("minute-")}


def is_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold"
        time.sleep(0.05)


def test_a_pin_is_renewed_while_the_scan_is_in_use_and_ends_with_it(broker: siltstone.Broker) -> None:
    topic = create(broker, "renewed")
    produce(broker, topic, [b"x"] * 5)
    with siltstone.scan(topic, store=broker.folder, lease="1s", renew=True) as found:
        ((token, first),) = pins(broker).items()
        is_true(lambda: pins(broker).get(token, 0) > first + 1_000)
        assert found.to_arrow().num_rows == 5
    is_true(lambda: token not in pins(broker))
    kept = siltstone.scan(topic, store=broker.folder, lease="1s", renew=True)
    assert pins(broker)
    del kept
    gc.collect()
    is_true(lambda: not pins(broker))
    is_true(lambda: not any(thread.name == "scan-pin" for thread in threading.enumerate()))


def test_to_pandas_and_polars_have_the_fields_of_decoded_values(broker: siltstone.Broker) -> None:
    topic = create(broker, "frames")
    produce(broker, topic, [b'{"a": 1}', b'{"a": 2}'])
    found: Any = siltstone.scan(topic, store=broker.folder, columns=["value"], value="json")
    assert found.to_polars()["value"].struct.field("a").to_list() == [1, 2]
    assert [row["a"] for row in found.to_pandas()["value"]] == [1, 2]
    assert "<table>" in found._repr_html_()
