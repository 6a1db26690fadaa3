"""Lists every metric: its name, type, labels, unit and help. docs/metrics.md is made from this table. Pure.

Names have base units and no abbreviations. A label is never the id of a client, a user, a host, a member or the text of
an error, because their number has no limit.
"""

from siltstone.server.admin.exposition import MetricFamily, MetricType

SERIES_DROPPED = "scrape_series_dropped"


def _gauge(name: str, help_text: str, *labels: str, unit: str = "") -> MetricFamily:
    return MetricFamily(name, MetricType.GAUGE, help_text, labels, unit)


def _counter(name: str, help_text: str, *labels: str, unit: str = "") -> MetricFamily:
    return MetricFamily(name, MetricType.COUNTER, help_text, labels, unit)


def _seconds(name: str, help_text: str, *labels: str) -> MetricFamily:
    return MetricFamily(f"{name}_seconds", MetricType.HISTOGRAM, help_text, labels, "seconds")


PROCESS = (
    MetricFamily("build", MetricType.INFO, "The version of Siltstone and of Python.", ("version", "python")),
    _gauge(
        "start_time_seconds",
        "When the process opened its admin listeners, in seconds since 1970.",
        unit="seconds",
    ),
    _gauge("ready", "1 if /readyz answers 200, otherwise 0."),
    _seconds(
        "event_loop_lag",
        "How much later than it was set for a timer of the event loop ran. Measured four times a second.",
    ),
    _counter("gc_seconds", "The time that Python's garbage collector took.", unit="seconds"),
    _counter("process_cpu_seconds", "The CPU time of the process, user and system.", unit="seconds"),
    _gauge("process_resident_memory_bytes", "The resident memory of the process.", unit="bytes"),
    _gauge(SERIES_DROPPED, "Series that this scrape left out because it would have had more than 5,000."),
)

NETWORK = (
    _counter("requests", "Requests that were started, by API.", "api"),
    _counter("request_errors", "Error codes in answers, one for each row that has one, by API and Kafka's name of the "
             "code. Rows without an error, and the answers to Metadata, are not counted.", "api", "error"),
    _counter("authorization_denied", "Rights that clients lacked for what they named, by API. outcome: refused, or "
             "passed while authorization is in the mode report.", "api", "outcome"),
    _seconds("request", "The time from a request's beginning to its answer, by API. A Fetch includes its wait for "
             "records.", "api"),
    _seconds("request_stage", "The parts of that time. Produce: append (open partitions, check records, wait behind a "
             "backlog quota), durable (until the write-ahead log holds the batches). Fetch: read, wait (for records; "
             "only fetches that waited), encode.", "api", "stage"),
    _counter("request_bytes", "Bytes received from clients.", unit="bytes"),
    _counter("response_bytes", "Bytes sent to clients.", unit="bytes"),
    _gauge("connections", "Open connections of clients, by listener.", "listener"),
    _counter("connections_accepted", "Connections that were accepted, also if they were closed at once."),
    _counter("connections_closed", "Connections that were closed, by reason.", "reason"),
    _counter("peer_refusals", "Connections whose peer was not let in, by listener and reason: too many of them in all, "
             "of its host or for the files of the process; too fast; the handshake of TLS or the login failed, also "
             "that of another node; this node is stale.", "listener", "reason"),
    _seconds("tls_handshake", "The time of handshakes of TLS that succeeded, from the acceptance of the connection."),
    _counter("tls_handshake_failures", "Handshakes of TLS that failed, by reason; the log has a line a minute for each "
             "reason and host.", "reason"),
    _gauge("tls_handshakes_in_flight", "Handshakes of TLS under way."),
    _gauge("tls_certificate_expiry_seconds", "When the certificate of a listener expires, in seconds since 1970.",
           "listener", unit="seconds"),
    _counter("tls_reloads", "New certificate files that listeners have taken while the process runs."),
    _counter("tls_reload_failures", "New certificate files that could not be used; the listener kept the ones before."),
    _counter("logins", "Logins of clients (SASL), by mechanism and outcome: succeeded or failed.", "mechanism",
             "outcome"),
    _counter("sessions_expired", "Connections that were closed because their session had expired and they had not "
             "logged in again."),
    _counter("throttled", "Answers that told a client to wait, and connections that were closed late, because of a "
             "quota of clients, by what it limits.", "quota"),
    _counter("throttled_seconds", "The time for which these clients had to wait, all together.", "quota",
             unit="seconds"),
    _counter("audit_records", "Records that this node has written to the topic of the audit.",
             unit="records"),
    _counter("audit_dropped", "Events that are not in the audit, because too many others waited to be written."),
    _gauge("requests_in_flight", "Requests that were received and are not answered yet."),
    _gauge("topic_stored_bytes", "Bytes of a topic in committed objects, copies and what waits for its deletion "
           "included, for the 500 topics with the most; _other is the rest.", "topic", unit="bytes"),
    _counter("topic_in_bytes", "Bytes of record batches appended, for the 1,000 topics with the most traffic; _other "
             "is the rest.", "topic", unit="bytes"),
    _counter("topic_out_bytes", "Bytes of record batches fetched, for the same topics.", "topic", unit="bytes"),
)  # fmt: skip

ENGINE = (
    _gauge("state", "1 for the present state of the node: starting, running, draining, failed or closed.", "state"),
    _gauge("partitions_open", "Partitions that are open."),
    _gauge("aborted_transactions_bytes_max", "Aborted transactions of the open partition that has most of them. At 96 "
           "MiB no transaction may begin there. Those of a compacted topic never leave."),
    _seconds("append", "The time from the append of a batch to its answer, when it is durable."),
    _gauge("appends_waiting", "Appends that wait: for room in the tail cache or in the write-ahead log, or for their "
           "partition to be opened, which reads the bucket."),
    _gauge("appends_waiting_bytes", "The bytes of the appends that wait for room.", unit="bytes"),
    _seconds("wal_write", "The time to write a group of appends to the write-ahead log, with its sync if due."),
    _gauge("wal_bytes", "Bytes of the write-ahead log that are not committed yet.", unit="bytes"),
    _gauge("wal_capacity_bytes", "The most bytes of the write-ahead log that may be uncommitted.", unit="bytes"),
    _counter("wal_written_bytes", "Bytes written to the write-ahead log.", unit="bytes"),
    _counter("wal_syncs", "Syncs of the write-ahead log."),
    _gauge("tail_cache_bytes", "Bytes in the tail cache.", unit="bytes"),
    _gauge("tail_cache_capacity_bytes", "The most bytes that the tail cache may hold.", unit="bytes"),
    _gauge("uncommitted_bytes", "Bytes of acknowledged batches that are in no committed object, and 1 KiB each.",
           unit="bytes"),
    _gauge("oldest_uncommitted_seconds", "The age of the oldest acknowledged batch that is in no committed object: "
           "the records since then would be lost with the log's disk.", unit="seconds"),
    _seconds("upload", "The time to upload one object, with all attempts."),
    _counter("upload_bytes", "Bytes of objects uploaded.", unit="bytes"),
    _counter("uploads_committed", "Objects that were uploaded and committed."),
    _gauge("upload_outage", "1 while uploads fail and are tried again, or have had no answer for a minute; "
           "otherwise 0."),
    _gauge("catch_up_limit_bytes", "The limit of reads that catch up, while they give way to appends, in bytes a "
           "second; 0: there is none.", unit="bytes"),
    _counter("catch_up_held_seconds", "The time for which reads that catch up have waited for appends, all together.",
             unit="seconds"),
    _counter("damaged_reads", "Reads that found a damaged or missing object."),
    _counter("hidden_markers", "Transactions that this node has aborted because damage hides whether they were "
             "committed."),
)  # fmt: skip

CACHES = (
    _counter("cache_hits", "Look-ups that found their block or index in the cache.", "cache"),
    _counter("cache_misses", "Look-ups that had to read from the bucket.", "cache"),
    _counter("cache_evictions", "Entries that were dropped from the cache to make room.", "cache"),
    _gauge("cache_bytes", "Bytes in the cache.", "cache", unit="bytes"),
    _counter(
        "read_ahead_wasted_bytes",
        "Bytes that were read ahead and dropped before they were used.",
        unit="bytes",
    ),
)

STORE = (
    _counter("store_requests", "Requests to a bucket, by operation, retries included. A listing counts as one.",
             "bucket", "operation"),
    _counter("store_retries", "Requests to a bucket that repeated one that had failed.", "bucket"),
    _counter("store_read_bytes", "Bytes read from a bucket.", "bucket", unit="bytes"),
    _counter("store_written_bytes", "Bytes written to a bucket.", "bucket", unit="bytes"),
    _seconds("store_request", "The time of each request to a bucket, failed ones included. Listings are not timed.",
             "bucket", "operation"),
    _gauge("store_silent", "1 while a bucket refuses requests or does not answer, otherwise 0; the log has more.",
           "bucket"),
    _counter("store_copies_passed_over", "Reads of a copy in this bucket that failed, so that another copy was read.",
             "bucket"),
    _counter("store_cost", "The estimated cost of the requests to a bucket, and of the bytes read, by the prices in "
             "admin.prices.*.", "bucket"),
    _counter("bandwidth_bytes", "Bytes that have passed the limiter of this process, to and from all buckets, by "
             "direction and grade.", "direction", "grade", unit="bytes"),
    _counter("bandwidth_held_seconds", "How long requests waited for the limits of bandwidth.*, all together.",
             "direction", "grade", unit="seconds"),
    _gauge("bandwidth_waiting_bytes", "Bytes that wait for the limits of bandwidth.* now.", "direction", "grade",
           unit="bytes"),
    _gauge("bandwidth_limit_bytes", "The limit of a direction, in bytes a second; 0: no limit.", "direction",
           unit="bytes"),
    _gauge("objects", "Objects that the metadata names, by bucket, kind and state.", "bucket", "kind", "state"),
    _gauge("object_bytes", "The bytes of these objects.", "bucket", "kind", "state", unit="bytes"),
    _gauge("live_bytes", "The bytes of committed objects that a read may still return, estimated from offsets. Garbage "
           "collection frees the others.", "bucket", "kind", unit="bytes"),
    _gauge("dirty_bytes", "The bytes of compacted topics in objects that no key compaction has processed.",
           unit="bytes"),
    _gauge("disk_free_bytes", "Free bytes on the disk of the log, of the metadata, or of a bucket that is a folder.",
           "disk", unit="bytes"),
    _gauge("disk_used_ratio", "The share of that disk that is used, 0 to 1.", "disk", unit="ratio"),
    _gauge("disk_pressure", "Whether maintenance may copy: 0 all kinds may, 1 major collections wait (from 0.90), 2 "
           "all copying waits (from 0.95).", "disk"),
)  # fmt: skip

METADATA = (
    _gauge("metadata_version", "The version of the metadata that this process has."),
    _gauge("metadata_read_age_seconds", "How long ago this broker last read the metadata log to its head. It does so "
           "once a second at least, so an age of ten seconds says that the database does not answer.", unit="seconds"),
    _seconds("metadata_append", "The time of each append to the metadata log."),
    _gauge("metadata_commands_waiting", "Metadata commands that wait to be executed."),
    _counter("metadata_commands", "Metadata commands that were executed."),
    _gauge("nodes", "Nodes that the metadata knows, by state: live, fenced, failing over while another node replays "
           "the log, or failed over until the node is started again or unregistered.", "state"),
    _gauge("nodes_unreachable", "Live nodes that this node could not reach when it last tried: the network between "
           "them is cut, or their proofs failed. Transactions over both wait."),
    _gauge("last_maintenance_age_seconds", "How long ago a kind of maintenance last ended a run, in any process; "
           "before any run, how long ago this broker was first scraped. Idle runs are noted every ten minutes.",
           "kind", unit="seconds"),
)  # fmt: skip

GROUPS = (
    _gauge("groups", "Groups that are loaded, share groups included, by state.", "state"),
    _gauge("group_series_omitted", "Groups without series of their own, because there are too many."),
    _gauge("group_members", "Members of a group.", "group"),
    _gauge("group_state", "1 for the present state of a group.", "group", "state"),
    _gauge("group_lag_records", "Records of a topic that a group has not committed yet, in all partitions in which it "
           "has committed an offset; of a share group, records that it is not done with in open partitions of this "
           "node.", "group", "topic", unit="records"),
    _gauge("group_lag_seconds", "The age of the oldest of these records; 0: there is none.", "group", "topic",
           unit="seconds"),
    _gauge("group_lag_bytes", "About how many bytes, as stored, these records have.", "group", "topic", unit="bytes"),
    _gauge("group_partitions_without_commit", "Partitions of a topic that hold records, and where a group has no "
           "committed offset although it has some in the topic: its lag there is not known.", "group", "topic"),
    _gauge("share_sessions", "Sessions that members of share groups have with this node, which leads partitions that "
           "they read."),
    _gauge("share_acquired_records", "Records that members of share groups hold now, in the partitions of this node.",
           unit="records"),
    _counter("share_delivered_records", "Records that members of share groups have acquired, each time counted.",
             unit="records"),
    _counter("share_acknowledged_records", "Records that members of share groups have acknowledged, by type: accept, "
             "release, reject, renew, or gap for an offset without a record.", "type", unit="records"),
    _counter("share_archived_records", "Records that share groups are done with although no member has accepted them, "
             "by reason: rejected, or deliveries if they were delivered as often as may be.", "reason", unit="records"),
    _gauge("transactions_open", "Transactions that this node coordinates and that have not ended."),
    _gauge("transaction_open_seconds", "The age of the oldest of them; 0: there is none. Readers of committed records "
           "wait behind it.", unit="seconds"),
)  # fmt: skip

MAINTENANCE = (
    _counter("maintenance_runs", "Runs of a kind that had work to do.", "kind"),
    _counter("maintenance_units", "Units of work, by outcome: done or failed.", "kind", "outcome"),
    _counter("maintenance_troubles", "Runs that ended early because of a failure that no unit has caused.", "kind"),
    _counter("maintenance_read_bytes", "Bytes that units have read.", "kind", unit="bytes"),
    _counter("maintenance_written_bytes", "Bytes that units have written.", "kind", unit="bytes"),
    _counter("maintenance_freed_bytes", "Bytes that units have freed.", "kind", unit="bytes"),
    _gauge("maintenance_set_aside", "Units that failed and wait to be tried again.", "kind"),
    _gauge("maintenance_last_success_seconds", "When a run of the kind last succeeded, in seconds since 1970; 0: never "
           "since the start.", "kind", unit="seconds"),
    _gauge("maintenance_interval_seconds", "How often the kind is due.", "kind", unit="seconds"),
    _gauge("maintenance_running", "1 while the kind runs, otherwise 0.", "kind"),
    _gauge("maintenance_rate_bytes", "The rate of a kind's present run, or of its latest one, in bytes a second; 0: "
           "none.", "kind", unit="bytes"),
    _gauge("maintenance_grade", "The grade of that run: 3 urgent, 4 ordinary.", "kind"),
    _counter("maintenance_held_seconds", "How long tasks waited for the rate, all together.", "kind", unit="seconds"),
    _gauge("compaction_debt_bytes", "Bytes that the last plan of a kind wanted to read and that are not done yet.",
           "kind", unit="bytes"),
)  # fmt: skip

FAMILIES = {
    family.name: family
    for family in (*PROCESS, *NETWORK, *ENGINE, *CACHES, *STORE, *METADATA, *GROUPS, *MAINTENANCE)
}
"""All families by name, in the order of a scrape."""
