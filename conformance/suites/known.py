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
          "`integration/test_sasl_integration.py` over TLS, `test_ssl_integration.py`", preparing.kafka_python,
          *PYTEST, secure=secured.kafka_python, clone_id="kafka-python"),
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
)  # fmt: skip

BY_ID = {suite.id: suite for suite in KNOWN}
