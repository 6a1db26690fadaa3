"""The defaults and limits of serving clients, each with its reason: of the network, and of consumer groups.

``limits`` has the rest, and describes the units. As there, the reason stands below its constant, or below the last of
several that it describes, and docs/reference.md shows the reasons of the defaults of settings.
"""

from siltstone.model.limits import KIB, MIB, MINUTE_MS, SECOND_MS

# -- network ---------------------------------------------------------------------------------------------

SOCKET_REQUEST_BYTES_MAX = 100 * MIB
"""A frame that claims to be larger is refused before memory is allocated for it [Kafka: socket.request.max.bytes]."""

MESSAGE_ELEMENTS_MAX = 1_000_000
"""The most elements of all arrays in one Kafka message. An element of a few bytes becomes an object of fifty or more:
at the limit a message costs 300 MB and a second at worst. Five times the largest clusters' partitions fit."""

REQUEST_ELEMENTS_MAX = 100_000
"""The most elements of all arrays in one request. Requests are decoded, handled and answered on the one event loop, at
some 10 µs per element, and any client may send one. It is ten times what the largest consumers fetch."""

QUEUED_REQUEST_BYTES_MAX = 256 * MIB
"""The most bytes of requests of all connections that are received and not yet answered; beyond this no connection is
read. It is more than twice the largest frame, so one such frame cannot block all clients [Kafka:
queued.max.request.bytes, unlimited there]."""

CONNECTION_REQUEST_BYTES_MAX = 32 * MIB
"""The most bytes of requests of one connection that are received and not yet answered: six times the five requests of 1
MiB that a Java producer keeps in flight, and an eighth of the limit for all connections."""

CONNECTION_REQUESTS_MAX = 1_000
"""The most requests of one connection received and not yet answered: many tiny ones cost more than their bytes."""

CONNECTION_ANSWER_BYTES_MAX = 64 * KIB
"""While a client leaves more bytes of its answers unread than this, no further request of its connection is handled. It
is asyncio's own default; the kernel buffers some MiB before."""

ANSWER_BYTES_MAX = 512 * MIB
"""The most bytes of unread answers of all such connections: ten of the largest fetches. From half of this on fetches
wait; at the limit the connection with the most unread bytes is closed."""

ANSWER_STALLED_MS_MAX = 2 * MINUTE_MS
"""A connection is closed if its client reads less than 64 KiB of a waiting answer in this time. It is twice the longest
time limit of clients for a request (librdkafka 60 s, Java 30 s), after which they close the connection themselves."""

ANSWER_PROGRESS_BYTES_MIN = 64 * KIB
"""A client that reads less of a waiting answer in ANSWER_STALLED_MS_MAX makes no progress: it is 4 kbit/s."""

REQUEST_STALLED_MS_MAX = 30 * SECOND_MS
"""While other connections wait for memory, a connection whose frame is not received whole within this time is closed:
its client's own time limit has passed [Java: request.timeout.ms]."""

MAX_CONNECTIONS = 10_000
"""The most connections at a time. An idle one takes some KiB; inspecting all of them each second takes a few ms."""

MAX_CONNECTIONS_PER_IP = 5_000
"""The most connections of one host at a time: a faulty host leaves room for others, and a proxy is not restricted."""

MAX_CONNECTIONS_PER_IP_OVERRIDES = ""
"""Hosts with another limit, as `ADDRESS:COUNT,…`: a proxy may have more, a test machine fewer, and 0 keeps a host out.
An address is a number [Kafka: max.connections.per.ip.overrides]."""

HANDSHAKE_MS_MAX = 10 * SECOND_MS
"""A client that has not completed the handshake of TLS after this long is closed. Proper ones take two round trips."""

HANDSHAKES_MAX = 400
"""The most handshakes of TLS under way. When there are more, the oldest is ended, so peers that send nothing do not
keep clients out: a client would need more than the time in which so many others arrive. Each holds 25 KiB with uvloop
and 280 KiB without."""

CONNECTIONS_IDLE_MS_MAX = 10 * MINUTE_MS
"""A connection without a whole request for this long is closed [Kafka: connections.max.idle.ms]."""

CLOSE_TIME_LIMIT_MS = 10 * SECOND_MS
"""How long a closing node waits for the requests that it has started to handle."""

# -- coordinators of groups and transactions -----------------------------------------------------------------

COORDINATOR_LOAD_WAIT_MS = 500
"""How long a request waits until the log of its coordinator is read before it is answered with an error that the client
retries. Reading mostly takes milliseconds, and a client retries after a hundred at the earliest."""

COORDINATOR_LOAD_BACKOFF_MS_MIN = 100
COORDINATOR_LOAD_BACKOFF_MS_MAX = 10 * SECOND_MS
"""After a failure, a coordinator reads its log again with waits that double up to the maximum, and after damage with
the maximum at once."""

# -- consumer groups -------------------------------------------------------------------------------------

GROUP_INITIAL_REBALANCE_DELAY_MS = 3 * SECOND_MS
"""How long the first rebalance of an empty group waits for more members [Kafka: group.initial.rebalance.delay.ms]."""

GROUP_SESSION_TIMEOUT_MS_MIN = 6 * SECOND_MS
GROUP_SESSION_TIMEOUT_MS_MAX = 30 * MINUTE_MS
"""The session timeouts a member may choose [Kafka: group.min.session.timeout.ms, group.max.session.timeout.ms]."""

CONSUMER_SESSION_TIMEOUT_MS = 45 * SECOND_MS
CONSUMER_HEARTBEAT_INTERVAL_MS = 5 * SECOND_MS
"""When a silent member of a group of KIP-848 is removed, and the interval at which members send heartbeats [Kafka:
group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms]."""

CONSUMER_SHORTEST_HEARTBEAT_INTERVAL_MS = 1 * SECOND_MS
"""The interval of heartbeats of KIP-848 while a node has few members. A rebalance takes one to two intervals, because a
member hears of it with its next heartbeat: with 5 s, as in Kafka, a group of 50 members takes 5 to 10 s."""

CONSUMER_HEARTBEATS_PER_SECOND = 50
"""The members of KIP-848 of a node send at most so many heartbeats a second for the sake of short intervals. That is
a quarter of what 1,000 members send at the longest interval."""

CONSUMER_ASSIGNMENT_INTERVAL_MS = 1 * SECOND_MS
"""How far apart the assignments of a group are: members that join at a time share one [Kafka:
group.consumer.assignment.interval.ms]."""

CONSUMER_REGEX_INTERVAL_MS_MIN = 10 * SECOND_MS
"""When topics change often, patterns are matched with them no more often than this."""

CONSUMER_REGEX_REFRESH_INTERVAL_MS = 10 * MINUTE_MS
"""After so long the topics that match a pattern are looked for again [Kafka: group.consumer.regex.refresh.interval.ms].
"""

SHARE_SESSION_TIMEOUT_MS = 45 * SECOND_MS
SHARE_HEARTBEAT_INTERVAL_MS = 5 * SECOND_MS
"""When a silent member of a share group is removed, and the interval at which members send heartbeats [Kafka:
group.share.session.timeout.ms, group.share.heartbeat.interval.ms]."""

SHARE_GROUP_MEMBERS_MAX = 200
"""The most members of one share group [Kafka: group.share.max.size]."""

SHARE_RECORD_LOCK_DURATION_MS = 30 * SECOND_MS
"""How long a record belongs to the member that has acquired it [Kafka: group.share.record.lock.duration.ms]."""

SHARE_DELIVERIES_MAX = 5
"""How often a record is delivered before the group gives it up, so that a record at which every member dies does not
stop a group for ever [Kafka: group.share.delivery.count.limit]."""

SHARE_RECORD_LOCKS_MAX = 2_000
"""How many records of a partition may be in flight in one share group: it bounds the memory and the snapshot of a
partition [Kafka: group.share.partition.max.record.locks]."""

SHARE_SESSIONS_MAX = 2_000
"""The most members of share groups that fetch from a node at a time [Kafka: group.share.max.share.sessions]."""

GROUP_MEMBERS_MAX = 2**31 - 1
"""The most members of one group [Kafka: group.max.size]; GROUP_BYTES_MAX is reached first."""

GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
"""A new member is removed if no join phase has ended for it within this time: its client may be gone [Kafka]."""

GROUP_BYTES_MAX = 8 * MIB
"""The most bytes of subscriptions and assignments of one group, stored as one record: 1,000 members of 8 KiB each."""

GROUPS_BYTES_MAX = 256 * MIB
"""The memory of all groups and offsets, about a million offsets. Beyond this new members and offsets are refused."""

OFFSET_METADATA_BYTES_MAX = 4 * KIB
"""The longest text that a client may commit with an offset [Kafka: offset.metadata.max.bytes]."""

OFFSETS_RETENTION_MINUTES = 7 * 24 * 60
"""How long offsets that no group uses are kept [Kafka: offsets.retention.minutes]."""

OFFSETS_RETENTION_CHECK_INTERVAL_MS = 10 * MINUTE_MS
"""How often offsets are checked for expiration [Kafka: offsets.retention.check.interval.ms]."""

OFFSETS_LOOKED_AT_PER_TURN = 1_000
"""The most offsets that are checked for expiration in one turn of the event loop: about a millisecond."""

GROUP_APPEND_BYTES_MAX = 1 * MIB
"""The most bytes of waiting records in one append to ``__consumer_offsets``. A larger record is appended alone."""

GROUP_RECORDS_WAITING_BYTES_MAX = 16 * MIB
"""The most bytes of records that wait to be appended to one partition of ``__consumer_offsets``: a second of a slow
disk. Beyond this, requests of its groups are answered with an error that clients retry."""

GROUP_CLOSE_WAIT_MS = 5 * SECOND_MS
"""How long a closing coordinator waits for records being appended; then it answers their clients with an error that
makes them retry."""

GROUP_CHECKPOINT_RECORDS_MIN = 10_000
GROUP_CHECKPOINT_LIVE_FACTOR = 8
"""A partition of ``__consumer_offsets`` is rewritten when it holds more than GROUP_CHECKPOINT_RECORDS_MIN records and
more than GROUP_CHECKPOINT_LIVE_FACTOR times its live ones: it loads in a second, and a rewrite costs an eighth of the
appends."""

# -- transactions --------------------------------------------------------------------------------------------

TRANSACTION_PARTITIONS_MAX = 100_000
"""The most partitions of one transaction: its record, and a marker for each, are written in one go. They take some 6 MB
in memory and half a megabyte in a record."""

TRANSACTIONAL_IDS_MAX = 100_000
"""The most transactional ids that a coordinator knows: 50 MB. A new one beyond this is refused with an error that
clients retry; the others continue."""

TRANSACTION_WAIT_MS = 1_000
"""How long a request waits for the transaction before it to be complete. On one node it is complete at once; else its
markers take milliseconds, or 60 where the log is in a bucket."""

TRANSACTION_EXPIRY_CHECK_INTERVAL_MS = 60 * MINUTE_MS
"""How often transactional ids are checked for expiration [Kafka:
transaction.remove.expired.transaction.cleanup.interval.ms]."""

TRANSACTION_CHECKPOINT_RECORDS_MIN = 50_000
TRANSACTION_CHECKPOINT_LIVE_FACTOR = 10
"""A partition of ``__transaction_state`` is written again when it has so many records, and so many times the
transactional ids that are known: loading it then takes a second at most. A commit takes three records."""

TRANSACTION_MARKER_RETRY_MS_MIN = 100
TRANSACTION_MARKER_RETRY_MS_MAX = 5_000
"""A marker that cannot be written is tried again with waits that double up to the maximum: readers of committed records
wait for it."""

TRANSACTION_PEER_WAIT_MS = 5_000
"""How long a node waits for the answer of another one to a question about a transaction, or to markers, before it asks
again. All of them may be repeated."""

MARKER_BYTES_UNDER_WAY_MAX = 32 * MIB
MARKER_REQUESTS_UNDER_WAY_MAX = CONNECTION_REQUESTS_MAX // 2
"""The most markers on their way to one node. It may be slow, and each transaction waits for its own: the requests would
fill the memory. Half of what a connection takes is left for questions, which markers wait for."""

TRANSACTION_RELOAD_INTERVAL_MS = 60_000
"""A coordinator whose marker is refused because something newer is known reads its log again, so often at most: the log
says whether it is still its own."""

HIDDEN_MARKER_CHECK_INTERVAL_MS = 10_000
"""How often the open partitions are looked through for transactions whose marker cannot be read: so long readers of
committed records wait behind damage. Usually no transaction is looked at twice, and a partition takes a microsecond."""

# -- admin listeners: metrics and health ---------------------------------------------------------------------


class Price(float):
    """A price of 0 or more, in whatever currency its reader means. Settings of this type are decimal numbers."""


ADMIN_LISTENERS = "off"
"""Where `/metrics`, `/livez` and `/readyz` are served over HTTP: HOST:PORT, several with commas, in a file also as a
list; `off`: nowhere. docs/metrics.md has the rest."""

ADMIN_MAINTENANCE_LISTENERS = "off"
"""The same for the process of `siltstone serve --with-maintenance`, which needs an address of its own."""

ADMIN_OPEN_TO_NETWORK = False
"""Whether an admin listener may be on an address that other machines reach. They see names of topics, of groups and of
buckets, and who is connected, without a login; a listener on 127.0.0.1, [::1] or localhost, or one that requires
certificates of its clients, goes without it."""

ADMIN_CONSOLE = False
"""Whether the admin listeners of a broker also serve the console (docs/console.md). It loads the web libraries into the
broker, and reads topics there. `siltstone console` does the same in a process of its own."""

ADMIN_ALLOWED_HOSTS = "localhost"
"""Host names, separated by commas, by which clients may call an admin listener, besides IP addresses and the listener's
own host. A request for another host is answered 421, so that no web page can read metrics through a name that it has
pointed at this machine."""

PRICE_OF_WRITES = Price(5.0)
"""The price of a million requests that put, copy or list, for `siltstone_store_cost_total`: that of S3 Standard in
us-east-1 in US dollars."""

PRICE_OF_READS = Price(0.4)
"""The price of a million requests that get or look, for `siltstone_store_cost_total`: that of S3 Standard in
us-east-1 in US dollars."""

PRICE_OF_GIB = Price(0.0)
"""The price of a GiB that is read from a bucket, for `siltstone_store_cost_total`: nothing within the bucket's region,
some 0.09 US dollars from elsewhere."""

PRICE_OF_STORAGE = Price(0.023)
"""The price of a GiB that is stored for a month, for `siltstone cost`: that of S3 Standard in us-east-1 in US
dollars."""

PRICE_OF_CORE = Price(0.05)
"""The price of a processor's core for an hour, for `siltstone cost`: about that of a core with 4 GiB of memory of
general-purpose machines in us-east-1 in US dollars."""

ADMIN_OTLP_ENDPOINT = ""
"""The URL of a collector to which each process pushes its metrics by OTLP over HTTP, such as
`http://127.0.0.1:4318/v1/metrics`, with or without admin listeners; empty: none. It needs the extra `otlp`."""

ADMIN_OTLP_INTERVAL_MS = 15 * SECOND_MS
"""How often the metrics are pushed; an export of 5,000 series takes 32 ms of CPU time in a thread."""

OTLP_EXPORT_MS_MAX = 5 * SECOND_MS
"""How long an export may take, attempts and the pauses between them included. What a silent collector does not take is
given up: the next export has newer values."""

ADMIN_CONNECTIONS_MAX = 64
"""The most connections of all admin listeners together: a monitoring system needs one at a time. Beyond it the oldest
connection that has not sent a whole request is closed."""

ADMIN_HEAD_BYTES_MAX = 8 * 1024
"""The most bytes of the head of an HTTP request. Prometheus sends some 300."""

ADMIN_HEAD_MS_MAX = 5 * SECOND_MS
ADMIN_ANSWER_MS_MAX = 10 * SECOND_MS
"""How long an HTTP client may take for its request, and then for its answer, before its connection is aborted:
Prometheus itself gives up after ten seconds."""

SCRAPE_SERIES_MAX = 5_000
"""The most series of one scrape: about 500 KB of text, and 20 ms of work in short turns."""

TOPICS_SHOWN_MAX = 1_000
"""The most topics that have series of their own; the traffic of the others is counted in one row."""

STORED_TOPICS_SHOWN_MAX = 500
"""The most topics whose stored bytes have series of their own: with those of the traffic they fit into a scrape."""

GROUPS_SHOWN_MAX = 1_000
GROUP_SERIES_MAX = 1_600
"""The most groups that have series of their own, and the most series of all groups together: what the other series of a
scrape leave of SCRAPE_SERIES_MAX. Groups with the largest lag come first."""

GROUP_OFFSETS_MAX = 100_000
"""The most committed offsets that are compared with the ends of their partitions in one look: a third of a second of
work, in short turns."""

SCRAM_ROUNDS_MIN = 4_096
SCRAM_ROUNDS_MAX = 16_384
"""The limits of Kafka: fewer rounds make a password easy to guess, more of them make each login slow."""

SCRAM_ROUNDS = 8_192
"""A guess costs a core 3 ms with SHA-512, as a login costs the client. Kafka's own tools take 4,096."""

USERS_MAX = 100_000
"""The most users of a store, each with two credentials of 250 bytes in the memory of every node."""

USER_NAME_BYTES_MAX = 255

SASL_FRAME_BYTES_MAX = 64 * 1024
"""The largest request before a login. Kafka allows 512 KiB, for tickets of Kerberos; a token has 32 KiB at most."""

SASL_FRAMES_MAX = 8
"""The most requests of a connection before it is logged in. The longest login needs five."""

AUTHENTICATION_MS_MAX = 10 * SECOND_MS
"""How long a connection may take to log in. The longest wait after a wrong password is half of it."""

ADMIN_METRICS_TOKEN_FILE = ""
"""The file whose first line, as a bearer token, lets a scrape of ``/metrics`` in at an admin listener with a login. It
is read again with each scrape, so a new token counts at once. Relative to the store's folder. Without one scrapes log
in as a user."""

SECURITY_STALE_MS_MAX = 5 * MINUTE_MS
"""How long a node continues with the users and rights that it knows when it cannot read the metadata: a database that
is restarted or replaced in two minutes ends no client, and a user who was removed reads for five minutes at most. It is
of no effect while there is neither a login nor authorization."""

UNAUTHENTICATED_CONNECTIONS_MAX = 1_000
"""The most connections that are not logged in. The oldest of them is closed when there are more: slow clients
keep nobody out."""

FAILED_LOGIN_MS_MIN = 100
FAILED_LOGIN_MS_MAX = 5 * SECOND_MS
"""How long the answer to a wrong password waits: the first for as long as in Kafka, each further one of the same host
and user twice as long, because a client that is set up wrong comes back 19 times a second."""

FAILED_LOGIN_FORGOTTEN_MS = 60 * SECOND_MS
FAILED_LOGINS_MAX = 10_000
"""The most pairs of host and user whose failures are counted: 2 MB."""

PASSWORD_CHECK_THREADS = 2
PASSWORD_CHECKS_MAX = 100
"""The threads that check passwords of PLAIN, and how many checks may wait: some 300 ms of work for each thread."""

ACLS_MAX = 100_000
"""The most ACLs of a store: some 50 MB in the memory of every node. Prefixes need far fewer."""

PARTITIONS_MAX = 100_000
"""The most partitions of a store; the broker's own topics are made all the same. More are refused (44,
POLICY_VIOLATION). Each process holds all partitions in memory, and a client could create some until none is left."""

ACLS_CREATED_AT_ONCE_MAX = 1_000
ACLS_DELETED_AT_ONCE_MAX = 10_000
"""The most ACLs that one request creates, and that it deletes, as in Kafka: an entry of the log has a megabyte."""

ACL_TEXT_BYTES_MAX = 4_096
"""The longest name, principal or host of an ACL: the name of a certificate may have as many bytes."""

SUPER_USERS_MAX = 100
"""Super users stand outside all ACLs, so there are few."""

QUOTAS_MAX = 10_000
QUOTAS_CHANGED_AT_ONCE_MAX = 1_000
"""The most entities that have quotas, each with up to four limits, and the most that one command changes. Defaults
serve any number of users and client ids."""

QUOTA_NAME_BYTES_MAX = 4_096
"""The longest name of a user or a client id with a quota: the name of a certificate may have as many bytes."""

QUOTA_WINDOW_MS = 1 * SECOND_MS
QUOTA_WINDOWS = 11
"""Rates are measured over eleven windows of a second, and the newest window is not full yet, as in Kafka."""

QUOTA_COUNTERS_MAX = 10_000
QUOTA_COUNTER_FORGOTTEN_MS = 60 * 60 * SECOND_MS
"""The most counters of a node, 600 bytes each, and when one that nobody charges is forgotten, as in Kafka. Clients
beyond it share one counter: made-up client ids cost no memory, and gain nothing."""

MUTED_MS_MAX = 10 * SECOND_MS
"""How long a connection is muted at a time. Java's clients give up after 30 s without an answer, librdkafka's after
60."""

LATE_CLOSINGS_MAX = 1_000
"""The most refused connections of addresses above their rate that are kept open to be closed later."""

VERDICTS_MAX = 10_000
"""The most answers about rights that are kept for one connection: a megabyte, and more topics than a client uses."""

DENIALS_LOGGED_PER_SECOND_MAX = 100
"""The most refusals that are logged in a second, each in a line of its own; the others are counted in one line."""
