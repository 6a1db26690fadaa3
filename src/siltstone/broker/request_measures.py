"""Counts of the requests of a broker by API: started, answered with their seconds, and the errors in their answers; of
Produce and Fetch the seconds of each stage.

Counting a request costs less than a microsecond and takes no lock: everything here belongs to the broker's event loop.
An error is counted for each row of an answer that has an error code, as in Kafka's ErrorsPerSec; an answer without
errors counts nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, TypeAlias, get_args, get_origin

import msgspec

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode

ErrorPath: TypeAlias = tuple[str, ...]
"""The names of the fields that lead from a response to an error code; all but the last are lists."""


class RequestStage(Enum):
    """A part of the time of a request; the parts of an API follow each other and make up the whole.

    A Produce is *appended* when all its batches are in the queue of the write-ahead log: until then its partitions are
    opened, its records checked, and a backlog quota waited for. A Fetch *waits* once or several times in between;
    fetches that find enough at once are not counted there.
    """

    PRODUCE_APPEND = (ApiKey.PRODUCE, "append")
    PRODUCE_DURABLE = (ApiKey.PRODUCE, "durable")
    FETCH_READ = (ApiKey.FETCH, "read")
    FETCH_WAIT = (ApiKey.FETCH, "wait")
    FETCH_ENCODE = (ApiKey.FETCH, "encode")

    def __init__(self, api_key: int, title: str) -> None:
        self.api_key = api_key
        self.title = title


class RequestStatistics(msgspec.Struct, frozen=True):
    """``begun`` and ``seconds`` by the number of the API, for the APIs that were requested; ``errors`` by the numbers
    of API and error code. ``stages`` has the seconds of the stages of the APIs that were requested. ``denied``: by the
    number of the API, and by whether the mode of authorization refused it; REPORT lets it pass."""

    begun: dict[int, int]
    seconds: dict[int, HistogramCounts]
    errors: dict[tuple[int, int], int]
    stages: dict[RequestStage, HistogramCounts]
    denied: dict[tuple[int, bool], int]


class RequestMeasures:
    def __init__(self) -> None:
        self._begun = dict.fromkeys(map(int, ANNOUNCED), 0)
        self._seconds = {api_key: Histogram() for api_key in self._begun}
        self._errors: Counter[tuple[int, int]] = Counter()
        self._stages = {stage: Histogram() for stage in RequestStage}
        self._denied: Counter[tuple[int, bool]] = Counter()

    def begin(self, api_key: int) -> None:
        """Counts a request of an announced API."""
        self._begun[api_key] += 1

    def answered(self, api_key: int, seconds: float) -> None:
        self._seconds[api_key].observe(seconds)

    def staged(self, stage: RequestStage, seconds: float) -> None:
        """Counts what one request spent in a stage."""
        self._stages[stage].observe(seconds)

    def failed(self, api_key: int, error: int) -> None:
        self._errors[api_key, error] += 1

    def denied(self, api_key: int, *, is_refused: bool) -> None:
        """Counts a right that a client lacks."""
        self._denied[api_key, is_refused] += 1

    def count_errors(self, api_key: int, response: object) -> None:
        """Counts every error code in a response that is not NONE."""
        for codes in _readers_of(type(response)):
            for code in codes(response):
                if code:
                    self._errors[api_key, code] += 1

    def statistics(self) -> RequestStatistics:
        return RequestStatistics(
            {api_key: count for api_key, count in self._begun.items() if count},
            {api_key: self._seconds[api_key].counts() for api_key, count in self._begun.items() if count},
            dict(self._errors),
            {
                stage: seconds.counts()
                for stage, seconds in self._stages.items()
                if self._begun[stage.api_key]
            },
            dict(self._denied),
        )


def error_name(code: int) -> str:
    """Kafka's name of an error code; the number itself if the code is not known."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# -- where a response has error codes ------------------------------------------------------------------------

Reader: TypeAlias = Callable[[Any], Iterator[int]]
_readers: dict[type, tuple[Reader, ...]] = {}


def _readers_of(response: type) -> tuple[Reader, ...]:
    """One reader for each path to an error code, made at the first response of its type."""
    if (known := _readers.get(response)) is None:
        known = _readers[response] = tuple(map(_reader, error_paths(response)))
    return known


ERROR_FIELDS = frozenset({"error_code", "partition_error_code", "acknowledge_error_code"})
"""Names of fields with an error of the request. ``topic_config_error_code`` says only that a client may not see the
configurations of a topic that it has created."""


def error_paths(response: type) -> Iterator[ErrorPath]:
    if not issubclass(response, msgspec.Struct):
        return
    for field in msgspec.structs.fields(response):
        if field.name in ERROR_FIELDS:
            yield (field.name,)
        elif (row := _row_of(field.type)) is not None:
            yield from ((field.name, *path) for path in error_paths(row))


def _row_of(annotation: Any) -> type | None:
    """Returns the type of the rows if the field is a list of structures, or a list that may be null."""
    if get_origin(annotation) is list:
        (row,) = get_args(annotation)
        return row if isinstance(row, type) and issubclass(row, msgspec.Struct) else None
    return next(filter(None, map(_row_of, get_args(annotation))), None)


def _reader(path: ErrorPath) -> Reader:
    *lists, last = path

    def read(row: Any, depth: int = 0) -> Iterator[int]:
        if depth == len(lists):
            yield getattr(row, last)
            return
        for each in getattr(row, lists[depth]) or ():
            yield from read(each, depth + 1)

    return read
