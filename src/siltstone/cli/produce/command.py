"""``siltstone produce TOPIC``: sends lines as records, and waits until all of them are stored."""

from typing import BinaryIO

import click
import msgspec

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.produce.lines import FORMATS, TEXT, LineRules, line_reader, parse_headers, parse_separator
from siltstone.cli.produce.progress import ProduceProgress, hint_at_terminal
from siltstone.cli.produce.reading import read_lines
from siltstone.cli.standard_streams import InputFile
from siltstone.cli.words import count_words, counted, seconds_words, size_words
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.configs import topic_configs
from siltstone.kafka_client.failures import KafkaRefusal, PartitionUnknown, TopicUnknown
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_client.producing.producer import BATCH_BYTES, Producer
from siltstone.kafka_client.topics import create_topic, find_topic, partitions_of
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.model.errors import InvalidRequest, SiltstoneError, Unavailable

CODECS = tuple(codec.name.lower() for codec in Codec)
MAX_MESSAGE_BYTES = "max.message.bytes"


class Stopped(Unavailable):
    """Producing failed after some records were written; the text says how many."""


class ProduceSettings(msgspec.Struct, frozen=True):
    topic: str
    rules: LineRules
    compression: Codec
    create: bool


@click.command()
@click.argument("topic", metavar="TOPIC")
@click.argument("stream", metavar="[FILE]", type=InputFile(), default="-")
@click.option(
    "--format",
    "line_format",
    type=click.Choice(FORMATS),
    default=TEXT,
    help="text (default): a line is a value; json: an object with key, value, headers, as tail --format json writes.",
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    default="",
    help='Split each line into key and value at this text, e.g. ":" or "\\t".',
)
@click.option("--key", metavar="TEXT", help="Key of every record.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header of every record; repeatable."
)
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    metavar="N",
    help="Send all records to this partition, whatever their keys.",
)
@click.option("--empty-as-null", is_flag=True, help="Send an empty value as a tombstone (null).")
@click.option(
    "--compression", type=click.Choice(CODECS), default="none", help="Compression of batches [none]."
)
@click.option("--create", is_flag=True, help="Create the topic if it does not exist.")
@cluster_options  # fmt: skip
def produce(
    choice: ClusterChoice,
    topic: str,
    stream: BinaryIO,
    line_format: str,
    key_separator: str,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    empty_as_null: bool,
    compression: str,
    create: bool,
    as_json: bool,
) -> None:
    """Send the lines of FILE, or of stdin, as records.

    Keyed records use Kafka's default (murmur2) partitioner; others go round-robin, one batch per partition. The command
    waits until every record is stored, exactly once, even if the broker restarts meanwhile.
    """
    rules = LineRules(
        line_format=line_format,
        separator=parse_separator(key_separator),
        key=None if key is None else key.encode("utf-8", "surrogateescape"),
        headers=parse_headers(headers),
        partition=partition,
        empty_is_null=empty_as_null,
    )
    if key is not None and key_separator:
        raise click.UsageError(
            "--key and --key-separator exclude each other: every record has the same key, or each line has its own."
        )
    with choice.open() as cluster:
        production = Production(cluster, ProduceSettings(topic, rules, Codec[compression.upper()], create))
        production.run(stream)
        production.tell(as_json)


class Production:
    """Sends all lines of one input to one topic, and prints how many records were written."""

    def __init__(self, cluster: Cluster, settings: ProduceSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._read = line_reader(settings.rules)
        self._bytes_read = 0
        self._began_ms = cluster.clock.monotonic_ms()
        self._progress: ProduceProgress | None = None
        partitions, batch_bytes_max = self._prepared()
        self._partition_count = partitions
        self._producer = Producer(
            cluster,
            settings.topic,
            partitions,
            compression=settings.compression,
            batch_bytes_max=batch_bytes_max,
            on_trouble=self._say_trouble,
        )

    def _prepared(self) -> tuple[int, int]:
        """The number of partitions, and the largest batch that the topic accepts. Creates the topic if --create was
        given. Raises TopicUnknown."""
        settings = self._settings
        try:
            topic = find_topic(self._cluster, settings.topic)
        except TopicUnknown as unknown:
            if not settings.create:
                raise TopicUnknown(f"{unknown}; --create creates it") from unknown
            create_topic(self._cluster, settings.topic, None, {})
            topic = find_topic(self._cluster, settings.topic)
        if settings.rules.partition is not None:
            partitions_of(topic, [settings.rules.partition])
        return len(topic.partitions), self._batch_bytes_max()

    def _batch_bytes_max(self) -> int:
        try:
            configs = topic_configs(self._cluster, [self._settings.topic], [MAX_MESSAGE_BYTES])
            return int(configs[self._settings.topic][MAX_MESSAGE_BYTES].value or BATCH_BYTES)
        except (
            KafkaRefusal,
            KeyError,
        ):  # the client may not read the configuration; most topics accept BATCH_BYTES
            return BATCH_BYTES

    def run(self, stream: BinaryIO) -> None:
        """Sends all lines. Raises Failure after Ctrl-C, Stopped if some records were written before an error, and the
        error itself if none was."""
        hint_at_terminal(stream, self._settings.topic)
        try:
            with ProduceProgress(stream, self._cluster.clock) as self._progress:
                self._send_lines(stream)
        except KeyboardInterrupt as interrupted:
            remarks().print(f"siltstone: interrupted, {self._written()}", markup=False)
            raise Failure(INTERRUPTED) from interrupted
        except SiltstoneError as failure:
            if not self._producer.records and not self._producer.records_unacknowledged:
                raise
            raise Stopped(f"{failure}; {self._written()}") from failure

    def _written(self) -> str:
        verb = "was" if self._producer.records == 1 else "were"
        unknown = self._producer.records_unacknowledged
        perhaps = f", and perhaps {count_words(unknown)} more" if unknown else ""
        return f"{counted(self._producer.records, 'record')} {verb} written before that{perhaps}"

    def _send_lines(self, stream: BinaryIO) -> None:
        assert self._progress is not None
        number = 0
        for read in read_lines(stream):
            for line in read.lines:
                number += 1
                self._producer.add(self._parsed(line, number))
            self._bytes_read += read.bytes_read
            if read.pauses:
                self._producer.flush()
            self._progress.tell(number, read.bytes_read)
        self._producer.flush()

    def _parsed(self, line: bytes, number: int) -> OutgoingRecord:
        """Parses line ``number``. Raises LineRefused, PartitionUnknown, after all lines before it have been written."""
        try:
            record = self._read(line, number)
            if record.partition is not None and record.partition >= self._partition_count:
                raise PartitionUnknown(
                    f"line {number}: topic {self._settings.topic} has no partition {record.partition}: it has "
                    f"partitions 0 to {self._partition_count - 1}"
                )
        except InvalidRequest:
            self._producer.flush()
            raise
        return record

    def _say_trouble(self, trouble: str) -> None:
        if self._progress is not None:
            self._progress.say(f"{trouble}; retrying what is not acknowledged")

    def tell(self, as_json: bool) -> None:
        seconds = (self._cluster.clock.monotonic_ms() - self._began_ms) / 1000
        producer = self._producer
        if as_json:
            print_json({
                "topic": self._settings.topic, "records": producer.records, "input_bytes": self._bytes_read,
                "batches": producer.batches, "sent_bytes": producer.wire_bytes, "seconds": round(seconds, 3),
                "partitions": {str(number): offsets for number, offsets in sorted(producer.partitions.items())},
            })  # fmt: skip
            return
        where = counted(len(producer.partitions), "partition")
        results().print(
            f"{counted(producer.records, 'record')} to {self._settings.topic}, {where}: "
            f"{size_words(self._bytes_read)} in {seconds_words(seconds)}",
            markup=False,
        )
