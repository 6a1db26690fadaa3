"""docs/differences-from-kafka.md: what can be checked is."""

import re

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.model import limits
from siltstone.server.settings.node import SETTINGS
from siltstone.topic_configs.rows import TABLE, Effect
from support.pages.documents import ROOT

TEXT = (ROOT / "docs" / "differences-from-kafka.md").read_text()
ROWS = dict(re.findall(r"^\| (.+?) \| (.+) \|$", TEXT, re.MULTILINE))


def row(beginning: str) -> str:
    (found,) = [here for kafka, here in ROWS.items() if kafka.startswith(beginning)]
    return found


def test_the_apis_announced_are_those_of_the_table() -> None:
    kinds = (
        "data",
        "transactions",
        "groups",
        "topics",
        "cluster",
        "moves",
        "logins",
        "rights",
        "quotas",
    )
    told = [name for kind in kinds for name in re.sub(r"\(.*?\)", "", ROWS[kind]).replace(",", " ").split()]
    assert len(told) == len(set(told))
    assert {name.lower() for name in told} == {key.name.replace("_", "").lower() for key in ANNOUNCED}


OF_BROKERS_AMONG_THEMSELVES = {
    ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.ALTER_PARTITION, ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION, ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.UPDATE_RAFT_VOTER,
}  # fmt: skip
NAMED_TOGETHER = ("SHARE_GROUP_STATE", "STREAMS_GROUP_", "DELEGATION_TOKEN")


def test_every_api_that_clients_may_ask_for_and_do_not_get_is_named() -> None:
    listed = TEXT.partition("**Not announced**")[2].partition("A client that looks")[0]
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", listed))
    expected = {
        key.name.title().replace("_", "")
        for key in set(ApiKey) - set(ANNOUNCED) - OF_BROKERS_AMONG_THEMSELVES
        if not any(part in key.name for part in NAMED_TOGETHER)
    }
    assert named == expected


def test_what_is_not_announced_is_not() -> None:
    for text, keys in {
        "Streams groups": (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.WRITE_SHARE_GROUP_STATE),
    }.items():
        assert row(text) and not set(keys) & set(ANNOUNCED)


def test_every_setting_named_exists() -> None:
    named = set(re.findall(r"`((?:broker|engine|groups|network)\.[a-z_.]+)`", TEXT))
    assert named and named <= set(SETTINGS)


def test_how_often_uploads_are() -> None:
    told = row("Acknowledged means")
    assert "every minute or every 100 MiB" in told
    assert (limits.CACHE_BLOCK_AGE_MS_MAX, limits.CACHE_BLOCK_BYTES_MAX) == (60_000, 100 << 20)


def test_retention_is_by_the_configurations_and_at_the_times_named() -> None:
    assert "every 5 minutes" in row("`retention.ms`, `retention.bytes`")
    assert limits.RETENTION_INTERVAL_MS == 5 * limits.MINUTE_MS
    named = set(re.findall(r"`((?:retention|segment)\.[a-z.]+)`", TEXT))
    assert named == {"retention.ms", "retention.bytes", "segment.bytes", "segment.ms"}
    assert {TABLE[name].effect for name in named} == {Effect.ACTS}
    assert int(TABLE["message.timestamp.after.max.ms"].default) == limits.HOUR_MS


def test_validation_of_every_record_is_a_configuration() -> None:
    (name, value) = re.search(r"`(siltstone\.[a-z.]+)=(\w+)`", TEXT).groups()
    assert value in TABLE[name].documentation or TABLE[name].default
    assert TABLE[name].effect is Effect.ACTS
