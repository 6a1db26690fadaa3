"""Floor 7: batches of a data pipeline are written into topics, each exactly once.

A *sink* is the pipeline's end; its record in the metadata says how far it came (``metadata.sinks``). The tasks of a
batch *stage* their rows as record batches in the bucket, in *parts*: the record batches of one task for one partition.
The driver lists the parts in a *manifest*, writes the *intent* into the metadata, and relays them: it produces them
through the broker of each partition, as one idempotent producer with settled sequence numbers. A driver
that finds an intent finishes it with the parts that the intent names, from the last sequence number that was stored.

Reading order: ``plan`` (what tasks are given), ``encoding`` with ``columns`` (rows → record batches), ``staging``
(record batches → parts in the bucket), ``manifest`` (all parts of a batch), ``relay`` (manifest → topics), ``batch``
(intent, relay, done), ``staged_sweep`` (what crashed batches left).
"""
