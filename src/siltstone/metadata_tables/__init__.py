"""Floor 9: the metadata as tables that SQL, Arrow and Spark can query, at any version that the log still holds.

A *moment* is an image with the store's time and what the image does not say: the positions of groups, the entries of
the log. A *table* has rows and columns. A row is a value of the image; a column is computed for a batch of rows, if
it is wanted. ``docs/metadata-tables.md`` lists them all.

Reading order: ``moment``, ``columns`` (rows → record batches), the tables (``streams``, ``objects``, ``cluster``,
``groups``, ``pipelines``, ``log_rows``), ``catalog`` (all of them; pure, for a broker's own image), ``commits`` (what
groups have committed, from objects), ``reading`` (opens a store: ``siltstone.metadata``).
"""
