"""Every limit and default of the store, with its reason. One table; a test asserts it against the docs.

Sources in brackets: [AutoMQ] is a default in AutoMQ's source, [AutoMQ's documents] a figure of its articles on
S3Stream and on compaction, which wins where the two differ; [Kafka: name] and the like are settings of that name.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS

# -- objects ---------------------------------------------------------------------------------------------

SPLIT_SIZE_BYTES = 16 * MIB
"""A stream's contiguous bytes above this leave the stream set object for stream objects [AutoMQ's documents]."""

BLOCK_SIZE_BYTES = 512 * KIB
"""A block is closed when its frames reach this. Small enough that a reader of a slow stream fetches little
it does not need, large enough that an index stays near 0.02 % of its object [AutoMQ]."""

MERGED_BLOCK_SIZE_BYTES = 1 * MIB
"""Compaction joins neighbouring blocks of a stream into one index entry up to this [AutoMQ]."""

READ_REQUEST_BYTES_MAX = 16 * MIB
"""Adjacent blocks are joined into one ranged GET up to this [AutoMQ's documents]."""

PART_SIZE_BYTES_MIN = 5 * MIB
"""The smallest part of a multipart upload but the last: the rule of S3 and all its compatibles."""

PART_COUNT_MAX = 10_000
"""The most parts of one multipart upload: the same."""

DELETE_BATCH_KEYS_MAX = 1_000
"""The most keys of one batched delete: the same."""

INDEX_BYTES_MAX = 256 * MIB
"""An object that claims a larger index is damaged: it would have 3.7 million blocks, and a reader holds it whole."""

TAIL_READ_BYTES = 64 * KIB
"""How much of an object's end one read takes in the hope that the index lies inside: about 900 entries."""

STORE_ATTEMPTS_MAX = 10
"""How often one request to a store is made before its failure is reported: with the backoff below it waits at most
33 s, half of that on average."""

STORE_BACKOFF_MS_MIN = 50
STORE_BACKOFF_MS_MAX = 10 * SECOND_MS
"""The wait before attempt n + 1 is random in [0, min(maximum, minimum * 2^n)]: full jitter, so that many
clients refused together do not come back together."""

STORE_DEADLINE_MS = 2 * MINUTE_MS
"""No attempt begins later than this after the first: a caller that waits longer has a lease to lose."""

STORE_REQUESTS_IN_FLIGHT_MAX = 64
"""Requests to one bucket side by side from one process; enough to fill a 10 Gbit/s link with 1 MiB requests
of 50 ms each."""

TEMPORARY_FILE_AGE_MS_MAX = 24 * HOUR_MS
"""A folder's temporary file older than this belongs to a put that was killed: no put takes that long."""

# -- upload ----------------------------------------------------------------------------------------------

CACHE_BLOCK_BYTES_MAX = 100 * MIB
"""A cache block is sealed at this size: the tail cache holds several, so that appends go on
while they are uploaded [AutoMQ class default]."""

CACHE_BLOCK_AGE_MS_MAX = 60 * SECOND_MS
"""A cache block with data in it is sealed at this age, so that the WAL of a quiet node stays short [AutoMQ]."""

STREAMS_PER_OBJECT_MAX = 20_000
"""The most streams in one stream set object: its index and its commit record stay small [AutoMQ]."""

TAIL_CACHE_BYTES_MAX = 512 * MIB
"""Appends not yet committed plus recently committed ones. An append waits when the former fill it."""

TAIL_CACHE_RECORD_OVERHEAD_BYTES = 1_024
"""What a cached batch is charged besides its payload, so that tiny batches cannot pass the limit [AutoMQ]."""

WAITING_APPENDS_BYTES_MAX = 256 * MIB
"""Appends that wait for room in the tail cache or the WAL; beyond this they are refused, to be tried again."""

UPLOADS_IN_FLIGHT_MAX = 4
"""Sealed blocks uploading side by side."""

COMMIT_AT_CLOSE_STALLED_MS_MAX = 15 * SECOND_MS
"""How long a closing node goes on while nothing more is uploaded or committed; the next start recovers what is left.
With CLOSE_TIME_LIMIT_MS it is less than the 30 s after which Kubernetes kills."""

UPLOAD_TIME_LIMIT_MS = 60 * MINUTE_MS
"""A prepared object that is not committed by then is collected [AutoMQ]."""

# -- write-ahead log -------------------------------------------------------------------------------------

WAL_SEGMENT_BYTES = 64 * MIB
"""One segment file: large enough that rolling is rare, small enough that trimming frees space soon."""

WAL_CAPACITY_BYTES = 2 * GIB
"""An append waits when the log holds this much untrimmed data [AutoMQ]."""

WAL_GROUP_BYTES_MAX = 8 * MIB
"""The most one group commit writes before its fdatasync; past about this, a longer group gains nothing."""

APPEND_BYTES_MAX = WAL_SEGMENT_BYTES - 4 * KIB
"""The largest payload of one append: it has to fit a WAL segment with the headers of segment, record and frame."""

# -- reading ---------------------------------------------------------------------------------------------

BLOCK_CACHE_BYTES_MAX = 256 * MIB
READ_AHEAD_BYTES_MIN = 512 * KIB
READ_AHEAD_BYTES_MAX = 32 * MIB
"""Read-ahead starts at the minimum and doubles while it is used [AutoMQ grows by misses]."""

INDEX_CACHE_BYTES_MAX = 100 * MIB
"""Object indexes kept for reads [AutoMQ]."""

READS_UNDER_WAY_BYTES_MAX = 128 * MIB
"""What ranged GETs under way hold, answer and blocks cut from it: four of the largest requests side by side."""

READ_AHEAD_PAUSE_MS = 1 * MINUTE_MS
"""How long a reader does without read-ahead after blocks fetched for it were evicted unread [AutoMQ]."""

SEQUENTIAL_READERS_MAX = 10_000
"""Readers whose read-ahead is remembered; the one idle for longest is forgotten and starts small again."""

DECOMPRESSED_BATCH_BYTES_MAX = 128 * MIB
"""Records of one batch that decompress to more are refused: a hundred times Kafka's usual batch of 1 MiB, and twice the
largest append. Without a limit a few KiB from a stranger fill the memory."""

# -- compaction ------------------------------------------------------------------------------------------

COMPACTION_MEMORY_BYTES = 500 * MIB
"""The most source bytes one iteration holds [AutoMQ's documents]."""

COMPACTION_SOURCES_MAX = 500
"""The most stream set objects one round takes, oldest first [AutoMQ takes the newest, which starves old ones]."""

COMPACTION_STREAM_OBJECTS_MAX = 10_000
"""The most stream objects one commit adds [AutoMQ]."""

COMPACTION_TIME_LIMIT_MS = 24 * HOUR_MS
"""Time limit of objects prepared by a compaction: longer than any round [AutoMQ]."""

SMALL_OBJECT_BYTES = 1 * MIB
"""A stream with less than this in a stream set object stays there, be it kept for another time than its neighbours: an
object of its own would cost more requests than the space it may hold is worth."""

FORCE_SPLIT_AGE_MS = 120 * MINUTE_MS
"""Stream set objects older than this are split into stream objects whatever their neighbours [AutoMQ]."""

SMALL_STREAM_OBJECT_BYTES = SPLIT_SIZE_BYTES
"""Stream objects below this are joined with such neighbours at every look: they cost as many requests as large ones."""

STREAM_OBJECT_SETTLED_MS = 1 * HOUR_MS
"""Larger ones are joined when they were committed this long ago: by then more of them have come [AutoMQ]."""

STREAM_OBJECT_LARGEST_SHARE_MAX = 0.6
"""The most of a group that one object may be: from 16 MiB to 10 GiB a byte is copied 7 times, at worst 13."""

STREAM_OBJECT_GROUP_BYTES_MAX = 10 * GIB
"""The largest stream object that is made of others [AutoMQ]."""

STREAM_OBJECT_GROUP_OBJECTS_MAX = 4_000
"""The most stream objects that become one: two parts for each keep below PART_COUNT_MAX."""

STREAM_OBJECT_GROUPS_MAX = 10_000
"""The most groups one plan holds: some 20 MB, with the objects that give the most for the fewest bytes."""

COPY_REQUEST_BYTES_MAX = 512 * MIB
"""One range copied inside a store, which answers when it is done: the client waits a minute at most [S3: 5 GiB]."""

OPEN_STREAM_LEFT_ALONE_MS = 2 * MINUTE_MS
"""Retention closes the active segment of a stream that a broker has open when nothing was committed for this long: a
broker that lives has done it after SEGMENT_REST_MS."""

JOB_LEASE_MS = 2 * MINUTE_MS
"""How long a maintenance job stays its driver's without being renewed."""

JOB_LOOKED_AT_MS = 3_000
"""How often a driver looks whether its job was cancelled or taken over: soon for people, nothing for the metadata."""

KEY_COMPACTION_MAP_BYTES = 128 * MIB
"""The map from keys to newest offsets of one task: some five million keys; beyond them the next pass goes on
[Kafka: log.cleaner.dedupe.buffer.size]."""

KEY_COMPACTION_MEMORY_BYTES = 256 * MIB
"""What one task holds besides: blocks being read, records of a batch, an object being written."""

KEY_COMPACTION_OBJECT_BYTES = 128 * MIB
"""A compacted stream object is closed when it reaches this: a task holds it whole, and joining makes larger ones."""

KEY_COMPACTION_ALLOWANCE_MS = 1 * HOUR_MS
"""How long after its start a key compaction may commit: the time limits of tombstones begin that much later, so that
no reader loses time to see one (G20)."""

KEY_COMPACTION_WAVE_BYTES = 16 * GIB
KEY_COMPACTION_WAVE_STREAMS_MAX = 256
"""Streams whose tasks run together and are then committed: enough to keep some dozen executors busy for minutes, few
enough that little is lost when a driver is."""

SET_ASIDE_MS_MIN = 1 * MINUTE_MS
SET_ASIDE_MS_MAX = 24 * HOUR_MS
"""A unit of maintenance that failed is tried again after the first, then after twice as long, up to the last."""

SWEEP_INTERVAL_MS = 1 * MINUTE_MS
"""How often what is due is deleted: it frees space, and costs nothing when there is none."""

RETENTION_INTERVAL_MS = 5 * MINUTE_MS
"""How often retention looks at every topic [Kafka: log.retention.check.interval.ms]."""

DEAD_OBJECTS_INTERVAL_MS = 1 * MINUTE_MS
"""How often objects without a live byte are given up: the image tells them, nothing is read."""

MINOR_GC_INTERVAL_MS = 1 * HOUR_MS
MAJOR_GC_INTERVAL_MS = 24 * HOUR_MS
"""How often objects with few live bytes, and with fewer than most, are rewritten [BookKeeper]. A major collection does
what a minor one would, and so puts the next of these off."""

SSO_COMPACTION_INTERVAL_MS = 20 * MINUTE_MS
"""How often stream set objects are compacted [AutoMQ]."""

SO_COMPACTION_INTERVAL_MS = 30 * MINUTE_MS
"""How often small stream objects of a stream are joined: they come from compaction, and not more often."""

KEY_COMPACTION_INTERVAL_MS = 1 * MINUTE_MS
"""How often compacted topics are looked at; what is done is decided by how dirty they are, and for how long."""

MAINTENANCE_RUN_MS_MAX = 60 * MINUTE_MS
"""A run in ``siltstone maintain serve`` begins nothing new after this long: the other kinds have their turn, then it
goes on."""

LAST_RUN_NOTED_MS = 10 * MINUTE_MS
"""When a kind last ran is written down this often at most: a restart repeats no more than that."""

METADATA_BACKOFF_MS_MAX = 1 * MINUTE_MS
"""Maintenance that cannot reach the metadata asks again after a second, then after twice as long, up to this."""

MINOR_GC_THRESHOLD = 0.2
MAJOR_GC_THRESHOLD = 0.8
"""An object of which less than this is live is rewritten, strictly [BookKeeper]. Freeing a byte costs u/(1-u) bytes
written at a live ratio of u: 0.25 at 0.2, 1 at 0.5, 4 at 0.8."""

GC_TARGET_SIZE_BYTES = 256 * MIB
"""Stream set objects count as at least this large when their live ratio is taken, so that small ones are put together;
without it they gather for ever [BookKeeper #3631]."""

GC_ROUND_BYTES = 1 * GIB
"""The most live bytes one commit of a collection rewrites: a few seconds of work, which is all that is lost when it
fails, and the space it needs besides."""

GC_OBJECTS_MAX = 2_000
"""The most objects one run of a collection looks into, those with the smallest share of live bytes first; the next run
has the others. Their indexes are in memory together: some 40 MB for objects of 100 MiB."""

GC_COPY_BYTES_PER_SECOND = 0
"""How fast collections copy; 0: as fast as they can. Readers share the bucket's bandwidth."""

STORE_QUOTA_BYTES = 0
"""What all objects together may take; 0: whatever they do. Like a disk, it stops copying before it is reached."""

PRESSURE_WARN_SHARE = 0.90
PRESSURE_FULL_SHARE = 0.95
"""From the first on major collections wait, from the second on whatever copies; nothing that deletes ever does
[BookKeeper]."""

REPAIR_DELETIONS_MAX = 1_000
"""The most objects one repair deletes: whoever deletes by comparing lists has lost data by it [BookKeeper #870], and
looks before he goes on."""

GRACE_PERIOD_MS = 10 * MINUTE_MS
"""A destroyed object is deleted from its bucket after this: longer than the longest fetch or scan by a
reader that still holds an older image [AutoMQ's documents]."""

# -- metadata --------------------------------------------------------------------------------------------

COMMANDS_PER_APPEND_MAX = 1_000
"""The most waiting commands one metadata append carries."""

SNAPSHOT_INTERVAL_RECORDS = 50_000
"""A snapshot of the image is written after this many records, and the log before it is dropped."""

PARTITIONS_PER_COMMAND_MAX = 10_000
"""The most partitions one command adds to a topic: with two streams each they are 1.3 MB of one log entry and 30 ms
to decide and apply [Kafka's controller draws the line here too]."""

TOPIC_NAME_CHARACTERS_MAX = 249
"""Kafka's: clients refuse longer names themselves."""

TOPIC_CONFIGS_BYTES_MAX = 64 * KIB
"""Keys and values of one topic's configuration: every image and every snapshot holds them."""

# -- broker ----------------------------------------------------------------------------------------------

DAY_MS = 24 * HOUR_MS

OFFSETS_TOPIC_PARTITIONS = 8
"""Partitions of ``__consumer_offsets``: enough that one busy group does not hold up all others. Kafka has 50, for its
brokers to share; a store of ours opens each of them at start."""

FETCH_BYTES_MAX = 55 * MIB
"""The most one fetch answers, whatever the client asks for [Kafka: fetch.max.bytes]."""

FETCH_SESSIONS_MAX = 1_000
"""Incremental fetch sessions remembered [Kafka: max.incremental.fetch.session.cache.slots]."""

PRODUCER_ID_EXPIRATION_MS = 1 * DAY_MS
"""Idempotent producers idle for this long are forgotten [Kafka: producer.id.expiration.ms]."""

PRODUCERS_PER_PARTITION_MAX = 100_000
"""Idempotent producers remembered for one partition: about 40 MB; the one idle for longest goes first."""

PRODUCER_BATCHES_KEPT = 5
"""Batches of a producer whose repetition is recognised: as many as it may have in flight [KIP-98, KIP-185]."""

PARTITION_SNAPSHOT_BYTES = 64 * MIB
"""A partition's producers and time index are written down after this many bytes: what a restart after a crash reads
again of one partition."""

SEGMENT_CHECK_INTERVAL_MS = 1 * SECOND_MS
SEGMENTS_CHECKED_AT_ONCE_MAX = 1_000
"""So many open partitions are looked at each time, in turns, for segments to be closed though nothing is appended: ten
thousand created together are closed by ten commands in ten seconds."""

SEGMENTS_PER_COMMAND_MAX = 1_000
"""Segments that one command closes: 60 KB of one log entry."""

SEGMENTS_UNWRITTEN_MAX = 64
"""Of one partition, while the metadata cannot be reached; then the newest become one, and what was meant to be two is
dropped together."""

SEGMENT_REST_MS = 5 * SECOND_MS
"""A segment that retention waits for is closed when nothing came for this long: who writes old records all day gets no
segment a second."""

TIME_INDEX_INTERVAL_BYTES = 1 * MIB
"""One entry of a partition's time index for this many bytes: a look-up by time scans at most that."""

TIME_INDEX_ENTRIES_MAX = 65_536
"""Then every second entry goes and the interval doubles: 1 MiB of memory for a partition at most."""

GROUP_PROGRESS_INTERVAL_MS = 5 * SECOND_MS
"""How often what registered groups have committed is written into the metadata, where it changed: retention, which
reads it, runs every few minutes."""

MIRROR_AT_CLOSE_STALLED_MS_MAX = 2 * SECOND_MS
"""How long a closing broker waits for the same: the next start does it, and more is kept until then."""

BACKLOG_QUOTA_CHECK_INTERVAL_MS = 1 * MINUTE_MS
"""How often backlogs are compared with their quotas, which producers may pass by what they send in between
[Pulsar: backlogQuotaCheckIntervalInSeconds]."""

MESSAGE_TTL_CHECK_INTERVAL_MS = 5 * MINUTE_MS
"""How often groups without members are moved past what is older than the time to live
[Pulsar: messageExpiryCheckIntervalInMinutes]."""

PRODUCE_HOLD_MS_MAX = 5 * SECOND_MS
"""How long a produce request waits for a partition over its backlog quota before it is told to come again: well below
the time limits of clients (30 s), and of a node that closes."""

HELD_PRODUCE_BYTES_MAX = 64 * MIB
"""Requests that wait so: a quarter of what all requests may have, or consumers could not ask for what is to be read.
Beyond this they are told to come again at once."""

PRODUCE_TIMEOUT_SWEEP_MS = 1 * SECOND_MS
"""How often produce requests are looked at whose time limit has passed."""

FETCH_READS_SIDE_BY_SIDE = 8
"""Partitions of one fetch that are read from objects side by side: what one fetch may make the reader do at once."""

FETCH_SESSION_PARTITIONS_MAX = 200_000
"""Partitions in all fetch sessions together: about 60 MB."""

FETCH_SESSION_IDLE_MS_MIN = 2 * MINUTE_MS
"""A session used less than this ago is not given up for a new one
[Kafka: min.incremental.fetch.session.eviction.ms]."""

RECORDS_PER_BATCH_MAX = 1_000_000
"""Records of one batch: what librdkafka puts into one at most (batch.num.messages). A few KiB from a stranger may claim
twenty million that are all alike, and whoever reads them has nothing else to do for half a minute."""

RECORDS_READ_AT_ONCE_MAX = 2_000
"""Records that are read on the event loop: about a millisecond. Of a batch with more, or of a compressed one, which may
become 128 MiB, they are read in a thread."""

# -- network ---------------------------------------------------------------------------------------------

SOCKET_REQUEST_BYTES_MAX = 100 * MIB
"""A frame that claims to be larger is refused before anything is allocated [Kafka: socket.request.max.bytes]."""

MESSAGE_ELEMENTS_MAX = 1_000_000
"""Elements of all arrays in one message of Kafka's protocol: an element of a few bytes becomes an object of fifty and
more, so what a message costs is not its bytes. At this it is 300 MB and a second at worst; five times the partitions
of the largest clusters fit."""

REQUEST_ELEMENTS_MAX = 100_000
"""The same of a request: it is read, worked off and answered on the one event loop, at some 10 µs an element, and
anybody may send it. Ten times what the largest consumers fetch."""

QUEUED_REQUEST_BYTES_MAX = 256 * MIB
"""Requests received and not yet answered, of all connections: beyond this nobody's next bytes are read. With twice the
largest frame, one such frame cannot stop everybody [Kafka: queued.max.request.bytes, unlimited there]."""

CONNECTION_REQUEST_BYTES_MAX = 32 * MIB
"""The same of one connection: six times the five requests of 1 MiB that a Java producer keeps in flight, and an eighth
of what all may have."""

CONNECTION_REQUESTS_MAX = 1_000
"""Requests of one connection received and not yet answered: what many tiny requests cost is not their bytes."""

CONNECTION_ANSWER_BYTES_MAX = 64 * KIB
"""A connection that leaves more of its answers unread than this has no further request begun. asyncio's own default:
the kernel holds some MiB before that."""

ANSWER_BYTES_MAX = 512 * MIB
"""Answers unread by all such connections: ten of the largest fetches. From half of this on who fetches waits; at the
limit the connection that leaves most unread is closed."""

ANSWER_STALLED_MS_MAX = 2 * MINUTE_MS
"""A peer that takes less than 64 KiB of a waiting answer in this time is closed. Twice the longest time limit of the
clients for a request (librdkafka 60 s, Java 30 s), after which they close the connection themselves."""

ANSWER_PROGRESS_BYTES_MIN = 64 * KIB
"""See above: what 4 kbit/s move in that time. A single byte now and then is no progress."""

REQUEST_STALLED_MS_MAX = 30 * SECOND_MS
"""While others wait for memory, a frame that is not whole after this is given up: its sender's own time limit has
passed [Java: request.timeout.ms]."""

MAX_CONNECTIONS = 10_000
"""Connections at a time, each some KiB when idle; the inspection of all of them once a second takes a few ms."""

MAX_CONNECTIONS_PER_IP = 5_000
"""Connections of one host at a time: a host gone wild leaves room for the others, and a proxy is not in the way."""

CONNECTIONS_IDLE_MS_MAX = 10 * MINUTE_MS
"""A connection without a whole request for this long is closed [Kafka: connections.max.idle.ms]."""

CLOSE_TIME_LIMIT_MS = 10 * SECOND_MS
"""How long a closing node waits for the requests it has begun."""

KEYED_VIEW_ENTRY_BYTES = 300
"""What a key in a KeyedView is charged besides its bytes: its entry, its place in the dict, two objects of bytes."""

# -- consumer groups -------------------------------------------------------------------------------------

GROUP_INITIAL_REBALANCE_DELAY_MS = 3 * SECOND_MS
"""How long a group that starts waits for more members [Kafka: group.initial.rebalance.delay.ms]."""

GROUP_SESSION_TIMEOUT_MS_MIN = 6 * SECOND_MS
GROUP_SESSION_TIMEOUT_MS_MAX = 30 * MINUTE_MS
"""What a member may choose [Kafka: group.min.session.timeout.ms, group.max.session.timeout.ms]."""

GROUP_MEMBERS_MAX = 2**31 - 1
"""Members of one group [Kafka: group.max.size]; GROUP_BYTES_MAX is reached first."""

GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
"""A member that has never heard the end of a join phase is given up after this: its client may be gone [Kafka]."""

GROUP_BYTES_MAX = 8 * MIB
"""Subscriptions and assignments of one group: they are written down as one record. 1,000 members of 8 KiB each."""

GROUPS_BYTES_MAX = 256 * MIB
"""All groups and offsets in memory, about a million offsets; beyond this newcomers and new offsets are refused."""

OFFSET_METADATA_BYTES_MAX = 4 * KIB
"""The text a client may commit with an offset [Kafka: offset.metadata.max.bytes]."""

OFFSETS_RETENTION_MINUTES = 7 * 24 * 60
"""How long offsets that nobody uses are kept [Kafka: offsets.retention.minutes]."""

OFFSETS_RETENTION_CHECK_INTERVAL_MS = 10 * MINUTE_MS
"""How often they are looked for [Kafka: offsets.retention.check.interval.ms]."""

OFFSETS_LOOKED_AT_PER_TURN = 1_000
"""Of the event loop, when expired ones are looked for: about a millisecond."""

GROUP_APPEND_BYTES_MAX = 1 * MIB
"""Keys and values that go into ``__consumer_offsets`` together, where several records wait; a larger one goes alone."""

GROUP_RECORDS_WAITING_BYTES_MAX = 16 * MIB
"""Records of one partition of ``__consumer_offsets`` that wait for its log: a second of a slow disk. Beyond this
groups are told to ask again later."""

GROUP_LOAD_WAIT_MS = 500
"""How long a request waits for its group to be loaded before it is told to come again: mostly that is a matter of
milliseconds, and a client comes again after a hundred at the earliest."""

GROUP_CLOSE_WAIT_MS = 5 * SECOND_MS
"""How long a closing coordinator waits for records that are under way; who asked is then told to ask again."""

GROUP_CHECKPOINT_RECORDS_MIN = 10_000
GROUP_CHECKPOINT_LIVE_FACTOR = 8
"""A partition of ``__consumer_offsets`` is written anew when it holds more records than the first and so many times the
live ones: it is loaded in a second, and what is written anew is an eighth of what was written before."""

GROUP_LOAD_BACKOFF_MS_MIN = 100
GROUP_LOAD_BACKOFF_MS_MAX = 10 * SECOND_MS
"""The wait before a partition of ``__consumer_offsets`` that could not be loaded is tried again; doubled each time."""
