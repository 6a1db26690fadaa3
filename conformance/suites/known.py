"""The suites, which are the rows of the table."""

import re

from conformance.suites import preparing, secured
from conformance.suites.suite import Suite

PYTEST = re.compile(r"^PASSED (\S+)", re.MULTILINE), re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
JEST = (
    re.compile(r"^ +✓ (.+?)(?: \(\d+ ?ms\))?$", re.MULTILINE),
    re.compile(r"^ +✕ (.+?)(?: \(\d+ ?ms\))?$", re.MULTILINE),
)
TAP = re.compile(r"^ok \d+ - (.+)", re.MULTILINE), re.compile(r"^not ok \d+ - (.+)", re.MULTILINE)
RUNNER = re.compile(r"(\d{4}_\S+) +\| +PASSED"), re.compile(r"(\d{4}_\S+) +\| +(?:FAILED|SKIPPED)")
GO = re.compile(r"^ *--- PASS: (\S+)", re.MULTILINE), re.compile(r"^ *--- FAIL: (\S+)", re.MULTILINE)
SARAMA = (
    re.compile(
        r"(wrote message at|failed to create producer: .*Authentication failed|Consumed message offset)"
    ),
    re.compile(r"(panic:.*|failed to (?!.*Authentication failed).*|Consumed: (?!2$).*)", re.MULTILINE),
)

_SHARES = "tests/integration/share_consumer/test_share_consumer"
SHARES_AS_EXPECTED = {
    f"{_SHARES}_commit.py::test_redelivery_increments_delivery_count_and_commits": "it sets a lock time of 5 s, which "
    "needs a broker with group.share.min.record.lock.duration.ms=1000",
} | {
    f"{_SHARES}_deserialization.py::test_schema_registry_{name}[{form}]": "it needs a schema registry"
    for name in ("roundtrip", "poison_marked")
    for form in ("avro", "protobuf", "json")
}

LIBRDKAFKA_CONSUMERS_AS_EXPECTED = {
    "0045_exit_134": "it wants topics of a pattern in a later answer than topics by name; here one answer may have all",
    "0053_stats": "skips itself where RapidJSON is not installed",
}

LIBRDKAFKA_SHARES_AS_EXPECTED = {
    "0171_exit_134": "librdkafka is built without zstd here",
    "0173_exit_134": "it sets a lock time of 3 s: Kafka takes that with group.share.min.record.lock.duration.ms=1000",
    "0179_exit_134": "one answer has both partitions here; Kafka 4.3.1 gives two answers, and it passes there",
    "0184_exit_134": "it fails when the producer's report on a record of the deleted topic is not a success",
}

KNOWN: tuple[Suite, ...] = (
    Suite("librdkafka", "librdkafka", "confluentinc/librdkafka", "0090, 0094, 0098, 0103, 0129", preparing.librdkafka,
          *RUNNER, as_expected={"0098_consumer_txn": "skips itself where RapidJSON is not installed"}),
    Suite("confluent", "confluent-kafka", "confluentinc/confluent-kafka-python",
          "`integration/producer/test_transactions.py`", preparing.confluent, *PYTEST),
    Suite("aiokafka", "aiokafka", "aio-libs/aiokafka",
          "`test_transactional_producer.py`, `test_transactional_consumer.py`", preparing.aiokafka, *PYTEST,
          settings={"broker.num_partitions": "2"}),
    Suite("aiokafka-logins", "aiokafka, logins", "aio-libs/aiokafka",
          "`test_sasl.py` without GSSAPI, over TLS; `test_producer_ssl`, `test_ssl_consume`", preparing.aiokafka,
          *PYTEST, settings={"broker.num_partitions": "2"}, secure=secured.aiokafka, clone_id="aiokafka"),
    Suite("kafka-python", "kafka-python", "dpkp/kafka-python",
          "`integration/test_producer_integration.py`: transactional and idempotent", preparing.kafka_python, *PYTEST,
          settings={"broker.num_partitions": "4"}),
    Suite("kafka-python-logins", "kafka-python, logins", "dpkp/kafka-python",
          "`integration/test_sasl_integration.py`, `integration/test_ssl_integration.py`, over TLS",
          preparing.kafka_python, *PYTEST, secure=secured.kafka_python, clone_id="kafka-python-3.0"),
    Suite("kafkajs", "kafkajs", "tulios/kafkajs",
          "`broker/__tests__` of the five requests, `concurrentTransaction`, `eosManager`", preparing.kafkajs, *JEST,
          as_expected={
              "ignores invalid transaction fields": "Apache Kafka 4.3.1 answers with the same error",
          }),
    Suite("platformatic", "@platformatic/kafka", "platformatic/kafka", "`clients/producer/transactions.test.ts`",
          preparing.platformatic, *TAP),
    Suite("franz-go", "franz-go", "twmb/franz-go", "`kgo`: TestTxnEtl, 50,000 records", preparing.franz_go, *GO,
          settings={"broker.num_partitions": "7"}, seconds_max=1_500),
    Suite("franz-go-logins", "franz-go, logins", "twmb/franz-go", "`kgo`: TestSCRAM, over TLS", preparing.franz_go, *GO,
          secure=secured.franz_go, clone_id="franz-go"),
    Suite("sarama-logins", "sarama, logins", "IBM/sarama",
          "`examples/sasl_scram_client` over TLS: it writes with either mechanism, a wrong password, it reads both",
          preparing.franz_go, *SARAMA, secure=secured.sarama, clone_id="sarama"),
    Suite("platformatic-consumers", "@platformatic/kafka", "platformatic/kafka",
          "`clients/consumer/consumer-consumer-group-protocol.test.ts`", preparing.platformatic_consumers, *TAP,
          clone_id="platformatic"),
    Suite("librdkafka-consumers", "librdkafka", "confluentinc/librdkafka",
          f"{preparing.CONSUMER_TESTS.replace(' ', ', ')}, with `group.protocol=consumer`",
          preparing.librdkafka_consumers, *RUNNER, settings={"broker.num_partitions": "4"}, clone_id="librdkafka",
          seconds_max=1_800, as_expected=LIBRDKAFKA_CONSUMERS_AS_EXPECTED),
    Suite("librdkafka-shares", "librdkafka", "confluentinc/librdkafka", "0170 to 0185 but for mocks: share consumers",
          preparing.librdkafka_shares, *RUNNER, clone_id="librdkafka", seconds_max=5_400,
          as_expected=LIBRDKAFKA_SHARES_AS_EXPECTED),
    Suite("confluent-consumers", "confluent-kafka", "confluentinc/confluent-kafka-python",
          "`integration/consumer`, with `group.protocol=consumer`", preparing.confluent_consumers, *PYTEST,
          clone_id="confluent"),
    Suite("confluent-shares", "confluent-kafka", "confluentinc/confluent-kafka-python",
          "`integration/share_consumer`", preparing.confluent_shares, *PYTEST, clone_id="confluent",
          settings={"groups.group_share_record_lock_duration_ms": "1000"}, seconds_max=1_800,
          as_expected=SHARES_AS_EXPECTED),
    Suite("franz-go-groups", "franz-go", "twmb/franz-go",
          "`kgo`: TestGroupETL with both protocols, TestShareGroup…, 20,000 records", preparing.franz_go_groups, *GO,
          settings={"broker.num_partitions": "7"}, clone_id="franz-go", seconds_max=1_500),
)  # fmt: skip

BY_ID = {suite.id: suite for suite in KNOWN}
