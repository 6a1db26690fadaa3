"""Lists the defaults of settings, and limits, each with its reason, in one table, so that they can be compared.

A text is below its constant, or below the last of several that it describes. Where a constant is the default of a
setting, docs/reference.md shows the text; a test compares the two. Limits of one format or adapter are in its module.

Sources in brackets: [AutoMQ] is a default in AutoMQ's source, [AutoMQ's documents] a figure of its articles on S3Stream
and on compaction, which wins where the two differ; [Kafka: name] and the like are settings of that name.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# -- objects ---------------------------------------------------------------------------------------------

SPLIT_SIZE_BYTES = 16 * MIB
"""Contiguous bytes of a stream above this leave the stream set object for a stream object [AutoMQ's documents]."""

BLOCK_SIZE_BYTES = 512 * KIB
"""A block is closed when its frames reach this size. It is small enough that the reader of a slow stream fetches little
it does not need, and large enough that an index stays near 0.02 % of its object [AutoMQ]."""

MERGED_BLOCK_SIZE_BYTES = 1 * MIB
"""Compaction joins neighbouring blocks of a stream into one index entry up to this size [AutoMQ]."""

READ_REQUEST_BYTES_MAX = 16 * MIB
"""Adjacent blocks are fetched by one ranged GET up to this size [AutoMQ's documents]."""

PART_SIZE_BYTES_MIN = 5 * MIB
"""The smallest part of a multipart upload, except the last one: a rule of S3 and all its compatibles."""

PART_COUNT_MAX = 10_000
"""The most parts of one multipart upload: a rule of S3 and all its compatibles."""

DELETE_BATCH_KEYS_MAX = 1_000
"""The most keys of one batched delete: a rule of S3 and all its compatibles."""

INDEX_BYTES_MAX = 256 * MIB
"""An object that claims a larger index is damaged: it would have 3.7 million blocks, and readers hold it whole."""

TAIL_READ_BYTES = 64 * KIB
"""The size of the first read of an object's end. It contains an index of up to about 900 entries."""

STORE_ATTEMPTS_MAX = 10
"""How often one request to a bucket is attempted before its failure is reported. With the backoff below, the waits add
up to 33 s at most, and to half of that on average."""

STORE_BACKOFF_MS_MIN = 50
STORE_BACKOFF_MS_MAX = 10 * SECOND_MS
"""The wait before attempt n + 1 is random in [0, min(maximum, minimum * 2^n)] (full jitter), so that many clients that
are refused together do not retry together."""

STORE_DEADLINE_MS = 2 * MINUTE_MS
"""No attempt of a request begins later than this after the first one: a job that waits longer may lose its lease."""

STORE_ANSWER_MS_MAX = 1 * MINUTE_MS
"""The longest wait for the next bytes of an answer of a bucket, the first included: completing an upload of many parts
takes tens of seconds."""

STORE_REQUESTS_IN_FLIGHT_MAX = 64
"""The most requests of a process to one bucket at a time: 1 MiB each in 50 ms fill a 10 Gbit/s link."""

TEMPORARY_FILE_AGE_MS_MAX = 24 * HOUR_MS
"""A temporary file in a folder store that is older than this was left by a killed put: no put takes that long."""

# -- upload ----------------------------------------------------------------------------------------------

CACHE_BLOCK_BYTES_MAX = 100 * MIB
"""A cache block is sealed for upload at this size. The tail cache holds several cache blocks, so that appends continue
while some are uploaded [AutoMQ class default]."""

CACHE_BLOCK_AGE_MS_MAX = 60 * SECOND_MS
"""A cache block with data is sealed at this age, so that the write-ahead log of a quiet node stays short [AutoMQ]."""

STREAMS_PER_OBJECT_MAX = 20_000
"""The most streams in one stream set object, so that its index and its commit record stay small [AutoMQ]."""

TAIL_CACHE_BYTES_MAX = 512 * MIB
"""The memory for uncommitted and recently committed appends. Appends wait when uncommitted ones fill it."""

TAIL_CACHE_RECORD_OVERHEAD_BYTES = 1_024
"""The bytes that a cached batch counts besides its payload, so that tiny batches cannot exceed the limit [AutoMQ]."""

WAITING_APPENDS_BYTES_MAX = 256 * MIB
"""The most bytes of appends that wait for tail cache or write-ahead log. Producers have to retry further ones."""

UPLOADS_IN_FLIGHT_MAX = 4
"""The most sealed cache blocks that are uploaded at the same time."""

COMMIT_AT_CLOSE_STALLED_MS_MAX = 15 * SECOND_MS
"""A closing node stops waiting when nothing was uploaded or committed for this long; the next start recovers the rest
from the write-ahead log. `serve` ends after this and CLOSE_TIME_LIMIT_MS together even if uploads continue: less than
the 30 s after which Kubernetes kills."""

UPLOAD_TIME_LIMIT_MS = 60 * MINUTE_MS
"""A prepared object that is not committed within this time is deleted [AutoMQ]."""

# -- write-ahead log -------------------------------------------------------------------------------------

WAL_SEGMENT_BYTES = 64 * MIB
"""The size of one log file: large enough that few are started, small enough that trimming frees space soon."""

WAL_CAPACITY_BYTES = 2 * GIB
"""Appends wait while the write-ahead log holds this much data that is not trimmed [AutoMQ]."""

WAL_GROUP_BYTES_MAX = 8 * MIB
"""The most bytes that one group commit writes before its fdatasync. Longer groups are hardly faster."""

WAL_PUTS_PER_HOUR_MAX = 72_000
"""Only for a log in a bucket: the most puts an hour of a busy node, one each 50 ms with 72,000. Appends are put at once
while no put is under way and the ceiling allows it, and gather otherwise; full bulks exceed it [AutoMQ: 14,400]."""

WAL_BULKS_IN_FLIGHT_MAX = 8
"""Only for a log in a bucket: the most puts under way. With 8 MiB each, a bucket that takes half a second for a put
takes 128 MiB a second [AutoMQ: 50]."""

APPEND_BYTES_MAX = WAL_SEGMENT_BYTES - 4 * KIB
"""The largest payload of one append: it must fit a log file together with the headers of file, record and frame."""

# -- reading ---------------------------------------------------------------------------------------------

BLOCK_CACHE_BYTES_MAX = 256 * MIB
READ_AHEAD_BYTES_MIN = 512 * KIB
READ_AHEAD_BYTES_MAX = 32 * MIB
"""Read-ahead begins at READ_AHEAD_BYTES_MIN and doubles while its blocks are read [AutoMQ grows by misses]."""

INDEX_CACHE_BYTES_MAX = 100 * MIB
"""The memory for object indexes that are kept for further reads [AutoMQ]."""

READS_UNDER_WAY_BYTES_MAX = 128 * MIB
"""The memory of ranged GETs under way, for answers and the blocks cut from them: four of the largest at a time."""

TAIL_READ_BYTES_MAX = 32 * MIB
"""A read with at most this many committed bytes from its offset to the end is a read at the tail: its consumer was away
for a moment, and is not catching up."""

CATCH_UP_BYTES_PER_SECOND_MIN = 16 * MIB
"""The lowest rate of all reads that catch up together, while they give way to appends: most topics grow more slowly."""

BANDWIDTH_IN_BYTES_PER_SECOND = 0
"""The most bytes that one process reads from its buckets in a second. 0: no limit, because the bandwidth of the network
or the disk is not known."""

BANDWIDTH_OUT_BYTES_PER_SECOND = 0
"""The most bytes that one process writes to its buckets in a second. 0: no limit."""

READ_AHEAD_PAUSE_MS = 1 * MINUTE_MS
"""Read-ahead for a reader pauses for this long after blocks that it fetched were evicted unread [AutoMQ]."""

SEQUENTIAL_READERS_MAX = 10_000
"""The most readers whose read-ahead is remembered. The one idle for longest is forgotten and begins at the minimum."""

DECOMPRESSED_BATCH_BYTES_MAX = 128 * MIB
"""A batch whose records decompress to more is refused, because a few KiB could otherwise fill the memory. It is about a
hundred times Kafka's usual batch of 1 MiB, and twice the largest append."""

KEYED_VIEW_ENTRY_BYTES = 300
"""The bytes that a key in a KeyedView counts besides key and value: its entry in the dict, two bytes objects."""

# -- maintenance -----------------------------------------------------------------------------------------

COMPACTION_MEMORY_BYTES = 500 * MIB
"""The most source bytes that one iteration holds in memory [AutoMQ's documents]."""

COMPACTION_SOURCES_MAX = 500
"""The most stream set objects of one round, oldest first [AutoMQ takes the newest, which starves old ones]."""

COMPACTION_STREAM_OBJECTS_MAX = 10_000
"""The most stream objects that one commit adds [AutoMQ]."""

COMPACTION_TIME_LIMIT_MS = 24 * HOUR_MS
"""A compaction's prepared object that is not committed by then is deleted: longer than any round [AutoMQ]."""

SMALL_OBJECT_BYTES = 1 * MIB
"""A stream with fewer bytes in a stream set object stays there, even if its retention differs from that of its
neighbours: the requests for an object of its own would cost more than the space that is freed later."""

FORCE_SPLIT_AGE_MS = 120 * MINUTE_MS
"""Stream set objects older than this are split into stream objects, even without a neighbour [AutoMQ]."""

SMALL_STREAM_OBJECT_BYTES = SPLIT_SIZE_BYTES
"""Smaller stream objects are merged with small neighbours in every run: they cost as many requests as large ones."""

STREAM_OBJECT_SETTLED_MS = 1 * HOUR_MS
"""Larger stream objects are merged only this long after their commit: by then there are more neighbours [AutoMQ]."""

STREAM_OBJECT_LARGEST_SHARE_MAX = 0.6
"""The largest object's share of a merge group. With 0.6, a byte is copied about 7 times (13 at worst) while its object
grows from 16 MiB to 10 GiB."""

STREAM_OBJECT_GROUP_BYTES_MAX = 10 * GIB
"""The largest stream object that a merge makes [AutoMQ]."""

STREAM_OBJECT_GROUP_OBJECTS_MAX = 4_000
"""The most stream objects of one merge group: with two parts for each, the upload stays below PART_COUNT_MAX."""

STREAM_OBJECT_GROUPS_MAX = 10_000
"""The most merge groups of one plan: some 20 MB. Those that remove most objects per byte copied are chosen."""

COPY_REQUEST_BYTES_MAX = 512 * MIB
"""The largest range copied inside a bucket by one request: its answer must come within a minute [S3: 5 GiB]."""

OPEN_STREAM_LEFT_ALONE_MS = 2 * MINUTE_MS
"""Retention closes the active segment of a stream that a broker has open only if nothing was committed for this long: a
live broker closes it itself after SEGMENT_REST_MS."""

JOB_LEASE_MS = 2 * MINUTE_MS
"""A maintenance job belongs to its driver for this long after the last renewal; then another driver may take the job
over."""

JOB_LOOKED_AT_MS = 3_000
"""How often a driver checks whether its job was cancelled or taken over: soon for people, cheap for the metadata."""

KEY_COMPACTION_MAP_BYTES = 128 * MIB
"""The memory of one task for the map from keys to newest offsets, enough for some five million keys. Keys beyond that
are left to the next pass [Kafka: log.cleaner.dedupe.buffer.size]."""

KEY_COMPACTION_MEMORY_BYTES = 256 * MIB
"""The memory of one task besides the map: blocks being read, the records of a batch, the object being written."""

KEY_COMPACTION_OBJECT_BYTES = 128 * MIB
"""A compacted stream object is closed at this size: a task holds it in memory whole. Merging makes larger ones."""

KEY_COMPACTION_ALLOWANCE_MS = 1 * HOUR_MS
"""A pass of key compaction over a stream must be committed within this time after its start. The time limits of
tombstones begin that much later, so that every reader has the full delete.retention.ms to see them (G20). A stream for
which it is too short is compacted in several passes, or with up to 16 times the time (K33)."""

KEY_COMPACTION_WAVE_BYTES = 16 * GIB
KEY_COMPACTION_WAVE_STREAMS_MAX = 256
"""The most source bytes and streams whose tasks run together: enough to keep some dozen executors busy for minutes."""

ERASED_KEYS_MAX = 1_000
"""The keys of one erasure. Their digests take 50 KB of the metadata, and each record of the topic is compared with all
of them by one search in a sorted list."""

ERASURES_BYTES_MAX = 16 * MIB
"""All erasures of a store together: they stay, so that a store that is restored from an older backup applies them
again. That is 300 requests with the most keys, or 100,000 with one."""

ERASURE_INTERVAL_MS = 10 * MINUTE_MS
"""How often maintenance looks for erasures that are pending, after a restore or after a command that was
interrupted."""

ERASURE_WAVE_OBJECTS_MAX = 64
"""This many objects are rewritten by one run of tasks, and committed before the next ones are prepared."""

SET_ASIDE_MS_MIN = 1 * MINUTE_MS
SET_ASIDE_MS_MAX = 24 * HOUR_MS
"""A unit that failed is retried after the minimum, then after twice as long each time, up to the maximum."""

SWEEP_INTERVAL_MS = 1 * MINUTE_MS
"""How often destroyed objects whose grace period is over are deleted. A run without any costs nothing."""

RETENTION_INTERVAL_MS = 5 * MINUTE_MS
"""How often retention checks every topic [Kafka: log.retention.check.interval.ms]."""

TABLE_EXPORT_INTERVAL_MS = 1 * MINUTE_MS
"""How often topics that are kept as tables are checked. How often a topic is exported is in its own configuration."""

DEAD_OBJECTS_INTERVAL_MS = 1 * MINUTE_MS
"""How often objects without a live byte are destroyed. The image names them, so no bucket is read."""

MINOR_GC_INTERVAL_MS = 1 * HOUR_MS
MAJOR_GC_INTERVAL_MS = 24 * HOUR_MS
"""How often objects with few live bytes are rewritten (minor), and objects with a larger share of live bytes, too
(major) [BookKeeper]. A major collection includes the work of a minor one and postpones the next of these."""

SSO_COMPACTION_INTERVAL_MS = 20 * MINUTE_MS
"""How often stream set objects are compacted [AutoMQ]."""

SO_COMPACTION_INTERVAL_MS = 30 * MINUTE_MS
"""How often small stream objects are merged. They are made by compaction, so a shorter interval would find no more."""

RELOCATION_INTERVAL_MS = 1 * MINUTE_MS
"""How often objects of a bucket that is drained are looked for: an operator waits for the bucket to become empty."""

COPIES_INTERVAL_MS = 1 * MINUTE_MS
"""How often objects with too few copies are looked for. Until they have enough, a second outage makes them
unreadable."""

KEY_COMPACTION_INTERVAL_MS = 1 * MINUTE_MS
"""How often compacted topics are checked. How dirty a partition is, and for how long, decides if it is compacted."""

MAINTENANCE_RUN_MS_MAX = 60 * MINUTE_MS
"""A run in ``siltstone maintain serve`` begins no unit after this long, so that other kinds run; the next continues."""

LAST_RUN_NOTED_MS = 10 * MINUTE_MS
"""An idle run of a kind is stored at most this often, so a restarted service repeats the runs of this time at most."""

CLOCK_ADVANCE_MS_MAX = 36 * HOUR_MS
"""Maintenance with metadata in SQLite refuses a clock that is further ahead of the newest time that the store has seen.
A store without brokers that is maintained every night has seen a time a day ago; a run may come some hours late."""

METADATA_BACKOFF_MS_MAX = 1 * MINUTE_MS
"""Maintenance that cannot reach the metadata retries after a second, then after twice as long each time, up to this."""

MINOR_GC_THRESHOLD = 0.2
MAJOR_GC_THRESHOLD = 0.8
"""An object is rewritten if a smaller share than this of its bytes is live [BookKeeper]. At a live share of u, freeing
a byte costs u/(1-u) bytes written: 0.25 at 0.2, 1 at 0.5, 4 at 0.8."""

GC_TARGET_SIZE_BYTES = 256 * MIB
"""Stream set objects count as at least this large when their live share is computed, so that small ones are put
together; otherwise they accumulate for ever [BookKeeper #3631]."""

GC_ROUND_BYTES = 1 * GIB
"""The most live bytes that one round of a collection rewrites: a few seconds of work, lost if the round fails,
and the most additional space that a round needs."""

GC_OBJECTS_MAX = 2_000
"""The most objects whose indexes one run of a collection reads, those with the smallest live share first; the next run
reads others. The indexes are in memory together: some 40 MB for objects of 100 MiB."""

SPREAD_BYTES_PER_SECOND_MIN = 1 * MIB
"""A run that is spread over its interval copies at least this fast. A lower rate would not make other work faster, and
a small run should not keep its job for twenty minutes."""

COPY_BYTES_PER_SECOND = 0
"""The highest rate at which a run of maintenance copies, in bytes read. 0: no limit."""

GC_COPY_BYTES_PER_SECOND = 0
"""The highest rate at which collections copy, because readers share the bucket's bandwidth. 0: no limit."""

STORE_QUOTA_BYTES = 0
"""The most bytes of all objects together; 0: no limit. Like a full disk, it stops maintenance that copies."""

PRESSURE_WARN_SHARE = 0.90
PRESSURE_FULL_SHARE = 0.95
"""When this share of a disk or of the quota is used, major collections wait (warn), or everything that copies waits
(full). Deletions never wait [BookKeeper]."""

REPAIR_DELETIONS_MAX = 1_000
"""The most objects that one repair deletes. Deletions that result from comparing lists have lost data elsewhere
[BookKeeper #870], so an operator should look at the result before the next repair."""

GRACE_PERIOD_MS = 10 * MINUTE_MS
"""A destroyed object is deleted from its bucket after this time. It is longer than the longest fetch or scan by a
reader that still uses an older image [AutoMQ's documents]."""

SCAN_PIN_MS_MAX = 24 * HOUR_MS
"""The longest lease of a scan pin. A pin holds the bytes of all objects destroyed after it, so a pin that its scan did
not end must not hold them for long."""

SCAN_PIN_OVERDUE_MS = 1 * MINUTE_MS
"""A sweep ends a pin this long after its lease, because the clock of the scan may be a little behind."""

SCAN_PINS_MAX = 1_000
"""The most pins with tokens of their own: one for each running query. Every image and every snapshot holds them."""

SHARED_SCAN_PINS_MAX = 1_500
"""The most pins that scans share: one for each minute of SCAN_PIN_MS_MAX, and some from clocks that differ. Beyond this
number a scan shares a later pin."""

# -- metadata --------------------------------------------------------------------------------------------

COMMANDS_PER_APPEND_MAX = 1_000
"""The most waiting commands that one append to the metadata log carries."""

SNAPSHOT_INTERVAL_RECORDS = 50_000
"""After this many records a snapshot of the metadata image is written, and the log before it is deleted."""

PARTITIONS_PER_COMMAND_MAX = 10_000
"""The most partitions that one command adds to a topic. With two streams each they are 1.3 MB of one log entry and take
30 ms to decide and apply [Kafka's controller has the same limit]."""

TOPIC_NAME_CHARACTERS_MAX = 249
"""The longest topic name [Kafka]; clients refuse longer ones themselves."""

TOPIC_CONFIGS_BYTES_MAX = 64 * KIB
"""The most bytes of keys and values in one topic's configuration, which every image and every snapshot holds."""

# -- broker ----------------------------------------------------------------------------------------------

OFFSETS_TOPIC_PARTITIONS = 50
"""Partitions of ``__consumer_offsets`` in a new store, as in Kafka. The leader of a partition coordinates its groups,
so their number bounds how many nodes share the groups; it never changes once the topic exists."""

TRANSACTION_STATE_PARTITIONS = 8
"""Partitions of ``__transaction_state`` in a new store. Each is loaded when a node starts; a transaction is as fast in
one as in fifty, and eight spread the coordinators over as many nodes. It never changes once the topic exists."""

TRANSACTION_TIMEOUT_MS_MAX = 15 * MINUTE_MS
"""The longest timeout that a transactional producer may ask for [Kafka]: so long an open transaction may hold back the
readers of committed records."""

TRANSACTION_HANGS_AFTER_MS = 5 * MINUTE_MS
"""A transaction that is open for so much longer than the longest timeout is no longer under way [Kafka:
kafka-transactions find-hanging]: its coordinator ends it within seconds of the timeout."""

TRANSACTIONAL_ID_EXPIRATION_MS = 7 * DAY_MS
"""How long a transactional id is known after its last transaction [Kafka]."""

AUDIT_TOPIC_PARTITIONS = 8
"""Each node writes to a partition that it leads, so that no other node has to be asked: for eight nodes or fewer."""

AUDIT_RETENTION_MS = 7 * DAY_MS
AUDIT_RETENTION_BYTES = 1 * GIB
"""A week, or three million records of 300 bytes, whichever is less; the topic's configuration changes both."""

FETCH_BYTES_MAX = 55 * MIB
"""The largest answer to a fetch, even if the client allows more [Kafka: fetch.max.bytes]."""

FETCH_SESSIONS_MAX = 1_000
"""The most incremental fetch sessions that are kept [Kafka: max.incremental.fetch.session.cache.slots]."""

PRODUCER_ID_EXPIRATION_MS = 1 * DAY_MS
"""The state of an idempotent producer that is idle for this long is deleted [Kafka: producer.id.expiration.ms]."""

PRODUCERS_PER_PARTITION_MAX = 100_000
"""The most idempotent producers that a partition remembers, about 40 MB. It forgets the one idle for longest first."""

PRODUCER_BATCHES_KEPT = 5
"""Batches kept for each producer, to recognise repetitions: as many as it may have in flight [KIP-98, KIP-185]."""

ABORTED_PER_PAGE_MAX = 16_384
"""The aborted transactions of a page beside a partition's snapshots, 384 KiB. Each snapshot holds fewer than a page."""

ABORTED_BYTES_PER_PARTITION_MAX = 96 * MIB
"""The aborted transactions of a partition, 24 bytes each: seven a second for a week. All are in memory while it is
open, and readers need each while its marker is in the log: for ever if the topic is compacted. One more is refused."""

PARTITION_SNAPSHOT_BYTES = 64 * MIB
"""A partition's producers and time index are stored after this many bytes: what a restart after a crash rereads."""

SEGMENT_CHECK_INTERVAL_MS = 1 * SECOND_MS
SEGMENTS_CHECKED_AT_ONCE_MAX = 1_000
"""How often the broker checks open partitions for segments that are too old, and how many it checks each time, in
turns. Ten thousand partitions created together are thus closed by ten commands in ten seconds."""

SEGMENTS_PER_COMMAND_MAX = 1_000
"""The most segments that one command closes: 60 KB of one log entry."""

SEGMENTS_UNWRITTEN_MAX = 64
"""The most closed segments of a partition that wait for unreachable metadata. Beyond this the newest are joined."""

SEGMENT_REST_MS = 5 * SECOND_MS
"""A segment whose closing retention waits for is closed when nothing was appended for this long: a producer that writes
old records all day does not get a new segment every second."""

TIME_INDEX_INTERVAL_BYTES = 1 * MIB
"""A partition's time index has one entry for this many bytes: a look-up by time scans no more than that."""

TIME_INDEX_ENTRIES_MAX = 65_536
"""At this many entries every second one is deleted and the interval doubles: at most 1 MiB for a partition."""

GROUP_PROGRESS_INTERVAL_MS = 5 * SECOND_MS
"""How often changed offsets of registered groups are written to the metadata, where retention reads them."""

MIRROR_AT_CLOSE_STALLED_MS_MAX = 2 * SECOND_MS
"""How long a closing broker waits for that write. The next start repeats it, and retention keeps more until then."""

BACKLOG_QUOTA_CHECK_INTERVAL_MS = 1 * MINUTE_MS
"""How often backlogs are compared with their quotas. Producers may exceed a quota by what they send in between [Pulsar:
backlogQuotaCheckIntervalInSeconds]."""

MESSAGE_TTL_CHECK_INTERVAL_MS = 5 * MINUTE_MS
"""How often the offsets of groups without members are moved past records older than the time to live [Pulsar:
messageExpiryCheckIntervalInMinutes]."""

PRODUCE_HOLD_MS_MAX = 5 * SECOND_MS
"""How long a produce request for a partition over its backlog quota is held before it is answered with an error that
the client retries: well below the time limits of clients (30 s), and of a closing node."""

HAND_OVER_MS_MAX = 2 * SECOND_MS
"""How long a produce request waits while its partition is handed over to another node. A hand-over takes a tenth of
that unless the bucket or the metadata is slow; then the client should retry."""

HELD_PRODUCE_BYTES_MAX = 64 * MIB
"""The most bytes of produce requests that are held. It is a quarter of the memory of all requests, so that consumers
can still send fetches. Beyond this, produce requests are answered at once with an error that the client retries."""

PRODUCE_TIMEOUT_SWEEP_MS = 1 * SECOND_MS
"""How often the broker checks for produce requests whose time limit has passed."""

FETCH_READS_SIDE_BY_SIDE = 8
"""The most partitions of one fetch that are read from objects at the same time."""

FETCH_SESSION_PARTITIONS_MAX = 200_000
"""The most partitions in all fetch sessions together: about 60 MB."""

FETCH_SESSION_IDLE_MS_MIN = 2 * MINUTE_MS
"""A session that was used less than this ago is not closed in favour of a new one [Kafka:
min.incremental.fetch.session.eviction.ms]."""

RECORDS_PER_BATCH_MAX = 1_000_000
"""The most records of one batch: the most that librdkafka puts into one (batch.num.messages). A few KiB may claim
twenty million equal records, and decoding those takes half a minute."""

RECORDS_READ_AT_ONCE_MAX = 2_000
"""The most records that are decoded on the event loop, in about a millisecond. Larger batches, and compressed ones,
which may become 128 MiB, are decoded in a thread."""
