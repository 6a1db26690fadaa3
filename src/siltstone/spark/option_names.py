"""The names of options that Spark hands over: which exist, which a program for Spark's connector for Kafka may carry
along, and which nobody knows."""

from collections.abc import Iterable, Mapping

from siltstone.foundation.credentials import without_password
from siltstone.model.errors import did_you_mean

CONNECTOR_OPTIONS = (
    "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
"""Options of Spark's connector for Kafka, beside ``kafka.…``, that say how its consumers work. None of them changes
which rows there are, so a program that has them reads the same rows here [Spark: Structured Streaming + Kafka
Integration Guide]."""

_OF_CONNECTOR = frozenset(name.lower() for name in CONNECTOR_OPTIONS)
_OF_TABLE = "provider"
"""Spark gives a source of CREATE TABLE the table's own properties, this one among them, and not the user's options."""

CREATE_TABLE_REFUSED = (
    "CREATE TABLE … USING siltstone is not possible: Spark does not hand its OPTIONS to a source written in Python;"
    " write CREATE TEMPORARY VIEW name USING siltstone OPTIONS (store '…', subscribe '…')"
)


def is_of_client(name: str) -> bool:
    """Returns whether the option says how a Kafka client works, which has no meaning here."""
    return name.lower().startswith("kafka.") or name.lower() in _OF_CONNECTOR


def ignored_text(names: Iterable[str]) -> str:
    return f"options of the Kafka client have no meaning for format siltstone: {', '.join(sorted(names))}"


def password_in(given: Mapping[str, str]) -> str | None:
    """Returns the text that refuses an option with a password in a URL, or None. Spark pickles options into the tasks
    of every executor, and writes those of SQL into its event log and its web page."""
    for name, value in given.items():
        if not is_of_client(name) and without_password(value) != value:
            return (
                f"option {name} has a password in its URL, and Spark would show it to every executor: leave it out, "
                "and give it to the driver's process, for PostgreSQL by ~/.pgpass or PGPASSWORD, for a registry by "
                "SILTSTONE_REGISTRY_AUTH_FILE or SILTSTONE_REGISTRY_AUTH"
            )
    return None


def place_text(store: str | None, metadata: str | None, buckets: Mapping[int, str]) -> str:
    """Returns the place of a store for a representation, without passwords."""
    urls = [None if url is None else without_password(url) for url in (store, metadata)]
    shown = {number: without_password(url) for number, url in buckets.items()}
    return f"{urls[0]!r}, {urls[1]!r}, {shown!r}"


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Returns the text that refuses an option: the name that was probably meant, and all the names there are."""
    if name.lower() == _OF_TABLE:
        return CREATE_TABLE_REFUSED
    names = list(known)
    by_lower = {each.lower(): each for each in names}
    hint = did_you_mean(name.lower(), by_lower, "", suggestions_max=1)
    for lower, proper in by_lower.items():
        hint = hint.replace(f" {lower}?", f" {proper}?")
    hint = f" {hint}" if hint else ""
    return f"option {name} does not exist;{hint} the options are {', '.join(names)} and bucket.N"
