"""Topics with keys on a running broker, and the dict that a consumer of them has to end up with."""

from random import Random

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from support.kafka.kafka_batches import bytes_of_records, iterate_headers
from support.kafka.raw_calls import RawTopic, create_topic, fetch, list_offset, metadata_request, produce_well
from support.kafka.raw_kafka import RawConnection

SETTINGS = {
    "engine.upload.cache_block_bytes_max": "64KiB",
    "engine.append_bytes_max": "32KiB",
    "engine.tail_cache_bytes_max": "160KiB",
    "engine.waiting_bytes_max": "160KiB",
    "read.block_cache_bytes_max": "64KiB",
    "read.read_ahead_bytes_min": "8KiB",
    "read.read_ahead_bytes_max": "16KiB",
    "engine.upload.block_size_bytes": "4KiB",
}
"""A second of appends makes several objects; little is read from memory."""

Table = dict[bytes, bytes]


class Keyed:
    """A topic of one partition, and the dict that says what is in it."""

    def __init__(self, connection: RawConnection, name: str) -> None:
        self.connection = connection
        self.topic = create_topic(connection, name, configs={"cleanup.policy": "compact"})
        self.expected: Table = {}
        self._rng = Random(name)

    @staticmethod
    def topic_of(connection: RawConnection, name: str) -> RawTopic:
        """Takes a topic that is there already."""
        (found,) = connection.ask(metadata_request(name), 12).topics
        return RawTopic(name, bytes(found.topic_id))

    def produce(self, batches: int) -> None:
        for _ in range(batches):
            pairs = [self._pair() for _ in range(self._rng.randint(1, 20))]
            records = [Record(timestamp_ms=1_700_000_000_000, key=key, value=value) for key, value in pairs]
            codec = self._rng.choice(list(Codec))
            produce_well(self.connection, self.topic, build_batch(records, compression=codec))
            for key, value in pairs:
                if value is None:
                    self.expected.pop(key, None)
                else:
                    self.expected[key] = value

    def _pair(self) -> tuple[bytes, bytes | None]:
        rng = self._rng
        key = b"key-%d" % rng.randrange(60)
        return key, None if rng.random() < 0.1 else b"%d" % rng.randrange(10**9) * rng.randint(1, 40)


def table_of(connection: RawConnection, topic: RawTopic) -> tuple[Table, int]:
    """Returns the table that a consumer makes from the beginning to the end, and how many records it took."""
    table: Table = {}
    count = 0
    offset, end = list_offset(connection, topic, -2).offset, list_offset(connection, topic, -1).offset
    while offset < end:
        row = fetch(connection, topic, offset, version=12)
        assert row.error_code == 0 and row.records, f"nothing at {offset}, below {end}"
        data = bytes_of_records(row)
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size_bytes]
            offset = header.last_offset + 1
            for record in iterate_records(batch):
                count += 1
                assert record.key is not None
                key = bytes(record.key)
                if record.value is None:
                    table.pop(key, None)
                else:
                    table[key] = bytes(record.value)
    return table, count
