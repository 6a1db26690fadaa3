"""Floor 7: topics are kept as tables. The kind of maintenance ``table-export`` appends the records of a topic to a
Parquet, Iceberg or Delta table, each record exactly once.

Words. A *table* is a set of *data files* (Parquet) and its metadata. Its *ledger* says up to which offset of each
partition the records are in it; the ledger is a part of the table, and changes only together with the data files. A
*round* appends the records from the ledger's offsets to the end of the objects. *Dead letters* are records that
cannot be decoded; they are rows of a second table, ``NAME__errors``, which has a ledger of its own.

Flow of a round: ledger → scan units → tasks that write data files → commit of the dead letters → commit of the table
→ ``progress``, a copy of the ledger in the metadata for retention and for people.

A table with ``siltstone.table.mode=upsert`` has the newest record of each key: the tasks' files are *staged*, and
further tasks merge them into the *buckets* of the table. In other tables such tasks join small files (``joining``,
``rewriting``).

Reading order: ``ledger``, ``formats.port``, ``planning`` (pure: what is due), ``kind``, ``rounds`` (the driver) with
``round_tasks`` and ``schemas``, ``task`` with ``decoding``, ``layout``, ``fitting`` and ``writing`` (an executor).
``formats`` holds the formats, ``inspecting`` what commands show. pyarrow, pyiceberg and deltalake are loaded when a
round begins, not before.
"""
