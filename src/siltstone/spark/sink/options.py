"""Parses the options of ``df.write.format("siltstone")`` and ``writeStream``: texts → the store, the topic and the
batch.

``sinkName`` with ``batchId`` (also ``txnAppId`` with ``txnVersion``, as Delta Lake calls them) makes a batch write
exactly once: the same id again writes nothing. A stream needs neither, because Spark has an id of the query and one of
each batch. ``topic`` is the topic of all rows.
"""

import logging
import re
from collections.abc import Mapping

import msgspec

from siltstone.metadata.sinks import MODES, TRANSACTION
from siltstone.model.limits import DAY_MS
from siltstone.runtime.randomness import random_token, system_randomness
from siltstone.scanning.request import duration_ms_of
from siltstone.sinking.failures import SinkRefused
from siltstone.sinking.plan import EncodingWish, check_sink_name
from siltstone.sinking.transaction import TRANSACTION_TIMEOUT_MS
from siltstone.spark.option_names import ignored_text, is_of_client, password_in, place_text, unknown_option
from siltstone.value_formats.value_format import FormatKind

log = logging.getLogger(__name__)

OPTIONS = (
    "store", "metadata", "topic", "mode", "transactionTimeout", "sinkName", "batchId", "queryId", "txnAppId",
    "txnVersion", "compression", "value", "valueSchema", "schemaRegistry", "valueSubject", "includeHeaders",
)  # fmt: skip
"""Every option of a sink except ``bucket.N`` and ``kafka.bootstrap.servers``. The guide of Spark's connector lists
``includeHeaders`` among those of its sink, too; there and here, headers are written if the rows have the column."""

_BUCKET = re.compile(r"bucket\.([0-9]+)")
_NAMES = {name.lower(): name for name in OPTIONS}
_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname", "outputmode"})


class SinkPlace(msgspec.Struct, frozen=True):
    """The store: its folder or the URL of its metadata; or ``metadata`` and ``buckets`` are URLs."""

    store: str | None
    metadata: str | None
    buckets: dict[int, str]

    def __repr__(self) -> str:
        return f"SinkPlace({place_text(self.store, self.metadata, self.buckets)})"


class SinkRequest(msgspec.Struct, frozen=True):
    """``sink_id`` None means that the id of the stream's query is the sink's. A batch without a name gets a random sink
    id, so it is written exactly once unless the program itself writes it again. ``batch_id`` is None for a stream."""

    place: SinkPlace
    is_nameless: bool
    topic: str | None
    sink_id: str | None
    batch_id: int | None
    query_id: str
    compression: str | None
    bootstrap: str | None
    encoding: EncodingWish | None = None
    mode: str | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS


def parse_sink_options(given: Mapping[str, str], *, overwrite: bool, is_stream: bool) -> SinkRequest:
    """Raises SinkRefused or ScanRefused with a text that names the option."""
    if overwrite:
        raise SinkRefused(
            "a topic cannot be overwritten: write with mode append (and outputMode append); to start again,"
            " delete the topic"
        )
    options, place, bootstrap = _known(given)
    if refusal := password_in(given):
        raise SinkRefused(refusal)
    if (mode := options.get("mode")) not in (None, *MODES):
        raise SinkRefused(
            f"option mode={mode!r}: write relay, to write through the brokers, transaction, to write each batch in one"
            " transaction of theirs, or objects, to write without one; left out, the sink chooses relay or objects by"
            " whether a broker is there"
        )
    sink_id, batch_id = _names(options, is_stream=is_stream)
    return SinkRequest(
        place,
        not is_stream and not {"sinkName", "txnAppId"} & options.keys(),
        options.get("topic"),
        sink_id,
        batch_id,
        options.get("queryId", ""),
        options.get("compression"),
        bootstrap,
        _encoding(options),
        mode,
        _transaction_timeout_ms(options),
    )


def _transaction_timeout_ms(options: Mapping[str, str]) -> int:
    text = options.get("transactionTimeout")
    if text is None:
        return TRANSACTION_TIMEOUT_MS
    if options.get("mode") != TRANSACTION:
        raise SinkRefused("option transactionTimeout is for mode=transaction: give that, too")
    timeout_ms = duration_ms_of(re.sub(r"(?<=\d)m\s*$", "min", text))
    if not timeout_ms or timeout_ms > DAY_MS:
        raise SinkRefused(f"option transactionTimeout={text!r}: write a duration such as 30s or 10min")
    return timeout_ms


def _encoding(options: Mapping[str, str]) -> EncodingWish | None:
    value = options.get("value")
    of_avro = sorted({"valueSchema", "schemaRegistry", "valueSubject"} & options.keys())
    if value not in (None, "avro", "json"):
        raise SinkRefused(
            f"option value={value!r}: write json or avro, or leave it out for values that are bytes or text"
        )
    if value != "avro" and of_avro:
        raise SinkRefused(f"option {of_avro[0]} says how Avro is written: give option value=avro, too")
    if value is None:
        return None
    return EncodingWish(
        options.get("valueSchema"),
        options.get("schemaRegistry", ""),
        options.get("valueSubject", ""),
        FormatKind(value),
    )


def _names(options: Mapping[str, str], *, is_stream: bool) -> tuple[str | None, int | None]:
    """Returns the sink's id and the batch's id."""
    sink_id = options.get("sinkName", options.get("txnAppId"))
    batch_id = _number(options, "batchId" if "batchId" in options else "txnVersion")
    if sink_id is not None:
        check_sink_name(sink_id)
    if not is_stream and (sink_id is None) != (batch_id is None):
        raise SinkRefused(
            "options sinkName and batchId are given together: a batch that is written again under the same name and id"
            " writes nothing"
        )
    if is_stream and batch_id is not None:
        raise SinkRefused("option batchId is not allowed for a stream: Spark numbers its batches")
    if not is_stream and sink_id is None:
        sink_id, batch_id = f"batch-{random_token(system_randomness())}", 0
    return sink_id, batch_id


def _known(given: Mapping[str, str]) -> tuple[dict[str, str], SinkPlace, str | None]:
    options: dict[str, str] = {}
    buckets: dict[int, str] = {}
    bootstrap = None
    ignored = []
    for raw, value in given.items():
        name = raw.lower()
        if bucket := _BUCKET.fullmatch(name):
            buckets[int(bucket[1])] = value
        elif name in _NAMES:
            options[_NAMES[name]] = value
        elif name == "kafka.bootstrap.servers":
            bootstrap = value
        elif is_of_client(name):
            ignored.append(raw)
        elif name not in _OF_SPARK:
            raise SinkRefused(unknown_option(raw, OPTIONS))
    if ignored:
        log.warning("%s", ignored_text(ignored))
    _check_headers(options)
    store, metadata = options.get("store"), options.get("metadata")
    if (store is None) == (metadata is None):
        raise SinkRefused(
            "option store (a folder) or the options metadata and bucket.N (URLs) name the store: give one"
        )
    return options, SinkPlace(store, metadata, buckets), bootstrap


def _check_headers(options: Mapping[str, str]) -> None:
    wish = options.get("includeHeaders", "true").lower()
    if wish not in ("true", "false"):
        raise SinkRefused(f"option includeHeaders={wish!r} is not allowed: write true or false")
    if wish == "false":
        log.warning(
            "option includeHeaders=false: headers are written if the rows have them; drop the column headers"
        )


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise SinkRefused(f"option {name}={text!r}: write a number from 0 on")
    return int(text)
