"""``siltstone tail`` and ``siltstone consume`` show the records that ``--grep`` and ``--where`` both match."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from siltstone.kafka_client.following import Found

TOGETHER = 1_000
"""Records that are filtered together: an expression costs a millisecond, however many they are."""

Matches = Callable[[Sequence[Found]], list[bool]]


def record_filter(grep: str | None, where: str | None) -> Matches | None:
    """Returns a function that says for each record whether it matches; None if every record does. Raises WhereRefused,
    and ArrowMissing for ``where`` without DuckDB."""
    contains = None if grep is None else _containing(grep.encode("utf-8", "surrogateescape"))
    if where is None:
        return contains
    from siltstone.scanning.where import Where  # noqa: PLC0415  loads pyarrow and DuckDB

    evaluate = Where(where).matches
    if contains is None:
        return evaluate

    def both(found: Sequence[Found]) -> list[bool]:
        candidates = contains(found)
        left = iter(evaluate([each for each, is_one in zip(found, candidates, strict=True) if is_one]))
        return [is_one and next(left) for is_one in candidates]

    return both


def _containing(text: bytes) -> Matches:
    return lambda found: [
        text in bytes(record.key or b"") or text in bytes(record.value or b"") for _, record in found
    ]


def told_apart(found: Iterable[Found | None], matches: Matches | None) -> Iterator[tuple[Found | None, bool]]:
    """Yields each record with whether it matches, in order. A None, after which no record is waiting, stays one, and
    no record waits behind it."""
    if matches is None:
        for each in found:
            yield each, each is not None
        return
    gathered: list[Found] = []
    for each in found:
        if each is not None:
            gathered.append(each)
        if gathered and (each is None or len(gathered) >= TOGETHER):
            yield from zip(gathered, matches(gathered), strict=True)
            gathered = []
        if each is None:
            yield None, False
    if gathered:
        yield from zip(gathered, matches(gathered), strict=True)
