"""``siltstone produce TOPIC``: sends lines as records, and waits until all of them are stored."""

from typing import BinaryIO

import click
import msgspec

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.produce.lines import (
    CSV,
    FORMATS,
    JSON_LINES,
    TEXT,
    WITH_FIELDS,
    LineRules,
    line_reader,
    parse_headers,
    parse_separator,
)
from siltstone.cli.produce.progress import AnswerWatch, ProduceProgress, hint_at_terminal
from siltstone.cli.produce.reading import ended_by_signals, read_lines
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
from siltstone.object_store.bucket_watch import looking

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
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.argument("stream", metavar="[FILE]", type=InputFile(), default="-")
@click.option(
    "-f",
    "--format",
    "line_format",
    type=click.Choice(FORMATS),
    help="text (default): a line is a value; json: an object with key, value, headers, as tail --format json writes; "
    "json-lines: any object is a value; csv: a row with the names of the first line is a value, as a JSON object.",
)
@click.option("--json-lines", "is_json_lines", is_flag=True, help="The same as --format json-lines.")
@click.option("--csv", "is_csv", is_flag=True, help="The same as --format csv.")
@click.option(
    "--key-field",
    metavar="NAME",
    help="The field of json-lines or csv that is the key; a field inside a field is written user.id.",
)
@click.option(
    "--missing-key-as-null",
    is_flag=True,
    help="Send a line without the --key-field as a record without a key.",
)
@click.option(
    "-K",
    "--key-separator",
    metavar="TEXT",
    default="",
    help='Split each line into key and value at this text, e.g. ":" or "\\t".',
)
@click.option("-k", "--key", metavar="TEXT", help="Key of every record.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of every record; repeatable.",
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    metavar="N",
    help="Send all records to this partition, whatever their keys.",
)
@click.option("--empty-as-null", is_flag=True, help="Send an empty value as a tombstone (null).")
@click.option(
    "-z", "--compression", type=click.Choice(CODECS), default="none", help="Compression of batches [none]."
)
@click.option("--create", is_flag=True, help="Create the topic if it does not exist.")
@cluster_options
def produce(
    choice: ClusterChoice,
    topic: str,
    stream: BinaryIO,
    line_format: str | None,
    is_json_lines: bool,
    is_csv: bool,
    key_field: str | None,
    missing_key_as_null: bool,
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

    With --json-lines or --csv, the value is the whole object and --key-field names the field that is the key:
    siltstone produce flights --create --json-lines --key-field tail_number flights.jsonl
    """
    rules = LineRules(
        line_format=_chosen_format(line_format, is_json_lines, is_csv),
        separator=parse_separator(key_separator),
        key=None if key is None else key.encode("utf-8", "surrogateescape"),
        headers=parse_headers(headers),
        partition=partition,
        empty_is_null=empty_as_null,
        key_field=key_field,
        missing_key_is_null=missing_key_as_null,
    )
    _refuse_contradictions(rules)
    with choice.open() as cluster:
        production = Production(cluster, ProduceSettings(topic, rules, Codec[compression.upper()], create))
        production.run(stream)
        production.tell(as_json)


def _chosen_format(line_format: str | None, is_json_lines: bool, is_csv: bool) -> str:
    """Raises UsageError when two different formats were given."""
    named = ((JSON_LINES, is_json_lines), (CSV, is_csv))
    given = {line_format} - {None} | {name for name, is_given in named if is_given}
    if len(given) > 1:
        raise click.UsageError("--format, --json-lines and --csv exclude each other: give one format.")
    return str(next(iter(given), TEXT))


def _refuse_contradictions(rules: LineRules) -> None:
    """Raises UsageError for options that exclude each other."""
    has_fields = rules.line_format in WITH_FIELDS
    keys = [rules.key is not None, bool(rules.separator), rules.key_field is not None]
    if sum(keys) > 1:
        raise click.UsageError(
            "--key, --key-separator and --key-field exclude each other: every record has the same key, or each line "
            "has its own."
        )
    if (rules.key_field is not None or rules.missing_key_is_null) and not has_fields:
        raise click.UsageError("--key-field and --missing-key-as-null need --json-lines or --csv.")
    if rules.missing_key_is_null and rules.key_field is None:
        raise click.UsageError("--missing-key-as-null needs --key-field: no other key can be missing.")
    if has_fields and (rules.separator or rules.empty_is_null):
        raise click.UsageError(
            f"--key-separator and --empty-as-null do not apply to {rules.line_format}: use --key-field for keys."
        )


class Production:
    """Sends all lines of one input to one topic, and prints how many records were written."""

    def __init__(self, cluster: Cluster, settings: ProduceSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._reader = line_reader(settings.rules)
        self._bytes_read = 0
        self._began_ms = cluster.clock.monotonic_ms()
        self._progress: ProduceProgress | None = None
        self._answers = AnswerWatch(self._began_ms)
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
        """Returns the number of partitions, and the largest batch that the topic accepts. Creates the topic if --create
        was given. Raises TopicUnknown."""
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
            with ProduceProgress(stream, self._cluster.clock) as self._progress, looking(self._look):
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
        with ended_by_signals() as wait:
            for read in read_lines(stream, wait):
                for line in read.lines:
                    number += 1
                    if (record := self._parsed(line, number)) is not None:
                        self._producer.add(record)
                self._bytes_read += read.bytes_read
                if read.pauses:
                    self._producer.flush()
                self._progress.tell(number, read.bytes_read)
        self._producer.flush()
        self._reader.finish()

    def _parsed(self, line: bytes, number: int) -> OutgoingRecord | None:
        """Parses line ``number``. Raises LineRefused, PartitionUnknown, after all lines before it have been written."""
        try:
            record = self._reader.read(line, number)
            if (
                record is not None
                and record.partition is not None
                and record.partition >= self._partition_count
            ):
                raise PartitionUnknown(
                    f"line {number}: topic {self._settings.topic} has no partition {record.partition}: it has "
                    f"partitions 0 to {self._partition_count - 1}"
                )
        except InvalidRequest:
            self._producer.flush()
            raise
        return record

    def _say_trouble(self, trouble: str) -> None:
        self._answers.trouble_was_said()
        if self._progress is not None:
            self._progress.say(f"{trouble}; retrying what is not acknowledged")

    def _look(self) -> None:
        """Says that nothing is acknowledged; a thread calls it."""
        producer, now_ms = self._producer, self._cluster.clock.monotonic_ms()
        if said := self._answers.seen(now_ms, producer.acknowledgements, is_waiting=producer.is_waiting):
            assert self._progress is not None
            self._progress.say(said)

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
