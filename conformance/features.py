"""The features that are tried, in the order of the rows of the matrix. A driver has one scenario for each feature,
which asserts its results. ``needs`` names the Kafka APIs without which no client can have the feature: a refusal is
then "not announced"."""

import msgspec

ADD_PARTITIONS_TO_TXN, CONSUMER_GROUP_HEARTBEAT, INCREMENTAL_ALTER_CONFIGS, OFFSET_DELETE = 24, 68, 44, 47
SHARE_FETCH = 78


class Feature(msgspec.Struct, frozen=True):
    """``idle_limited``: the feature is tried on a broker that closes connections after IDLE_LIMIT_MS; ``secured``: on
    one with TLS, logins and rights."""

    id: str
    title: str
    part: str
    seconds_max: float = 120
    needs: frozenset[int] = frozenset()
    idle_limited: bool = False
    restarts_broker: bool = False
    secured: bool = False


IDLE_LIMIT_MS = 1_500
CODECS = ("gzip", "snappy", "lz4", "zstd")


def _part(part: str, *features: Feature) -> tuple[Feature, ...]:
    return tuple(msgspec.structs.replace(feature, part=part) for feature in features)


def _feature(id: str, title: str, **more: object) -> Feature:  # noqa: A002  the field is called so
    return Feature(id=id, title=title, part="", **more)  # type: ignore[arg-type]


FEATURES: tuple[Feature, ...] = (
    *_part(
        "Producing",
        _feature("plain", "exact bytes, order and offsets, three partitions"),
        _feature("keys_and_nulls", "null, empty and given keys and values are kept apart"),
        _feature("headers", "headers: order, repeated names, empty, binary and null values"),
        *(_feature(codec, f"compression: {codec}, stored so and read back") for codec in CODECS),
        _feature("create_time", "timestamps given by the producer (CreateTime)"),
        _feature("log_append_time", "timestamps given by the broker (LogAppendTime)"),
        _feature("acks", "acks 0, 1 and all"),
        _feature("idempotence", "idempotent producer"),
        _feature(
            "idempotence_restart", "idempotent producer, broker killed and started meanwhile",
            seconds_max=90, restarts_broker=True,
        ),
        _feature("large", "a message of 8 MiB where the topic allows it", seconds_max=60),
        _feature("too_large", "a message larger than the topic allows is refused with the right error"),
        _feature("many_partitions", "a topic of 200 partitions, written and read", seconds_max=90),
        _feature("auto_create", "a topic made by the first message to it"),
        _feature("transactions", "transactions: committed seen, aborted not", needs=frozenset({ADD_PARTITIONS_TO_TXN})),
    ),
    *_part(
        "Reading",
        _feature("earliest_latest", "from the earliest and from the latest offset"),
        _feature("seek_offset", "from a given offset, back and forth"),
        _feature("seek_time", "from a time: first record not older, and none"),
        _feature("out_of_range", "an offset that is not there: the reset policy, or the right error"),
        _feature("small_fetches", "records larger than the fetch limits arrive whole, in order"),
        _feature("pause_resume", "pause and resume of single partitions"),
        _feature("pattern", "subscription by pattern, a topic made later included"),
        _feature("read_committed", "isolation level read_committed on ordinary records"),
        _feature("long_idle", "producer and consumer idle past the broker's limit continue", idle_limited=True),
    ),
    *_part(
        "Consumer groups",
        _feature("rebalance", "two members, then three, one leaves: every record once", seconds_max=90),
        _feature("cooperative", "the same with cooperative rebalancing", seconds_max=90),
        _feature("static_member", "a static member comes back without a rebalance", seconds_max=60),
        _feature("manual_commit", "offsets and metadata committed and fetched by hand"),
        _feature(
            "group_restart", "a group continues from its offsets after the broker was killed and started",
            seconds_max=90, restarts_broker=True,
        ),
        _feature(
            "kip848", "the new group protocol (group.protocol=consumer)",
            needs=frozenset({CONSUMER_GROUP_HEARTBEAT}),
        ),
        _feature(
            "share_group", "a share group (KIP-932): released records come again and are counted, accepted ones do not",
            seconds_max=60, needs=frozenset({SHARE_FETCH}),
        ),
    ),
    *_part(
        "Administration",
        _feature("topics", "create, list, describe and delete topics; errors for those there and not there"),
        _feature("partitions", "more partitions"),
        _feature("describe_configs", "describe configurations of topic and broker"),
        _feature("alter_configs", "alter configurations, all at once"),
        _feature(
            "incremental_alter", "alter single configurations; an unknown one is refused",
            needs=frozenset({INCREMENTAL_ALTER_CONFIGS}),
        ),
        _feature("cluster", "describe the cluster: id, controller, brokers"),
        _feature("groups", "list, describe and delete groups"),
        _feature("group_offsets", "list, alter and delete a group's offsets", needs=frozenset({OFFSET_DELETE})),
        _feature("delete_records", "delete records up to an offset"),
        _feature("list_offsets", "earliest, latest, by time, and of the largest timestamp"),
    ),
    *_part(
        "Security",
        *(
            _feature(id, title, secured=True, seconds_max=60)
            for id, title in (  # noqa: A001  the field is called so
                ("tls", "TLS: written and read"),
                ("mutual_tls", "TLS with a certificate of the client"),
                ("sasl_plain", "a login by PLAIN, over TLS"),
                ("scram_sha_256", "a login by SCRAM-SHA-256, over TLS"),
                ("scram_sha_512", "a login by SCRAM-SHA-512, over TLS"),
                ("oauthbearer", "a login by a token (OAUTHBEARER), over TLS"),
                ("wrong_password", "a wrong password: the client's error of a login, within 10 s"),
                ("denied_topic", "a topic without a right: TOPIC_AUTHORIZATION_FAILED, and its other topic continues"),
                ("throttled", "a quota: the producer waits, nothing is lost, and it continues"),
            )
        ),
    ),
)  # fmt: skip

TOOLS: tuple[Feature, ...] = _part(
    "Kafka's own tools",
    _feature("kafka_topics", "`kafka-topics`: create, describe, alter, list, delete"),
    _feature("kafka_configs", "`kafka-configs`: alter, describe"),
    _feature(
        "kafka_consumer_groups", "`kafka-consumer-groups`: list, describe, reset, delete offsets, delete"
    ),
    _feature("kafka_get_offsets", "`kafka-get-offsets`: earliest, latest, max timestamp, a time"),
    _feature("kafka_delete_records", "`kafka-delete-records`"),
    _feature(
        "kafka_transactions",
        "`kafka-transactions`: list, describe, abort",
        needs=frozenset({ADD_PARTITIONS_TO_TXN}),
    ),
    _feature("kafka_broker_api_versions", "`kafka-broker-api-versions`"),
    _feature("kafka_cluster", "`kafka-cluster cluster-id`"),
    _feature("console", "`kafka-console-producer` and `kafka-console-consumer`"),
    _feature("producer_perf", "`kafka-producer-perf-test`", seconds_max=60),
    _feature("consumer_perf", "`kafka-consumer-perf-test`", seconds_max=60),
    _feature("verifiable_producer", "`kafka-verifiable-producer`"),
    _feature("verifiable_consumer", "`kafka-verifiable-consumer`"),
    _feature(
        "tools_login", "with TLS and a login: topics, ACLs, console producer and consumer", secured=True
    ),
)

EXCHANGE_WRITE = Feature("exchange_write", "the same records with every codec", "Exchange")
EXCHANGE_READ = Feature("exchange_read", "what another client wrote with every codec", "Exchange")

BY_ID = {feature.id: feature for feature in (*FEATURES, *TOOLS)}
