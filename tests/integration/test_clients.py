"""What ordinary Kafka clients do with Siltstone, in short: ``make conformance`` is the whole matrix.

Each client runs in its own process, on one broker per worker; the features here are those that most programs need, and
those that imitations of Kafka get wrong, spread so that each is tried by somebody.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance.brokers.siltstone import open_siltstone
from conformance.clients import BY_ID as CLIENTS
from conformance.column import Column, Trials, open_column, running_trials
from conformance.features import BY_ID as FEATURES
from conformance.outcome import Outcome, is_expected

SHORT = {
    "confluent": """plain keys_and_nulls headers gzip lz4 log_append_time acks idempotence_restart large too_large
        auto_create transactions earliest_latest seek_time out_of_range small_fetches pause_resume read_committed
        long_idle cooperative kip848 share_group incremental_alter groups delete_records list_offsets""",
    "kcat": "plain gzip snappy zstd acks idempotence seek_time rebalance group_restart",
    "kafka-python": "plain lz4 headers idempotence pattern group_offsets topics describe_configs",
    "aiokafka": "plain zstd create_time seek_offset rebalance transactions partitions alter_configs",
    "kafkajs": "plain snappy headers idempotence manual_commit topics cluster",
    "java": """plain headers zstd idempotence transactions many_partitions rebalance static_member manual_commit
        topics cluster group_offsets list_offsets""",
    "tools": "console verifiable_consumer",
}
LEFT_TO_THE_FULL_RUN = {
    "kafka_topics", "kafka_configs", "kafka_consumer_groups", "kafka_get_offsets", "kafka_delete_records",
    "kafka_transactions",
    "kafka_broker_api_versions", "kafka_cluster", "producer_perf", "consumer_perf", "verifiable_producer",
    "tls", "mutual_tls", "sasl_plain", "scram_sha_256", "scram_sha_512", "oauthbearer", "wrong_password",
    "denied_topic", "throttled", "tools_login",
}  # fmt: skip
WORKERS = {"confluent": "one", "kcat": "one", "kafkajs": "one"}
"""Who works beside whom: what takes about as long."""

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]  # the first time, clients are fetched

CELLS = [
    pytest.param(
        client, feature, id=f"{client}-{feature}",
        marks=pytest.mark.xdist_group(f"clients-{WORKERS.get(client, 'other')}"),
    )
    for client, features in SHORT.items()
    for feature in features.split()
]  # fmt: skip


@pytest.fixture(scope="session")
def client_trials() -> Iterator[Trials]:
    with running_trials(open_siltstone) as trials:
        yield trials


@pytest.fixture(scope="session")
def client_columns(client_trials: Trials) -> Iterator[dict[str, Column]]:
    """Those begun so far: a client's process is kept from one feature to the next."""
    with ExitStack() as running:
        yield ClientColumns(client_trials, running)


class ClientColumns(dict[str, Column]):
    def __init__(self, trials: Trials, running: ExitStack) -> None:
        super().__init__()
        self._trials = trials
        self._running = running

    def __missing__(self, client: str) -> Column:
        if missing := CLIENTS[client].missing():
            pytest.skip(missing)
        self[client] = self._running.enter_context(open_column(CLIENTS[client], self._trials))
        return self[client]


@pytest.mark.parametrize(("client", "feature"), CELLS)
def test_client(client: str, feature: str, client_columns: dict[str, Column]) -> None:
    result = client_columns[client].try_feature(FEATURES[feature])
    assert is_expected(result, "siltstone"), str(result)
    assert result.outcome is not Outcome.CLIENT_LACKS_IT


def test_every_feature_is_tried_by_somebody_or_left_to_the_full_run() -> None:
    tried = set(" ".join(SHORT.values()).split())
    assert tried | LEFT_TO_THE_FULL_RUN == set(FEATURES)
    assert tried & LEFT_TO_THE_FULL_RUN == set()
