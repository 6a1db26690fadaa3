"""Floor 5: plans (``planning``, pure), jobs, rewriting, commit, sweep, check. Knows no broker and no Spark: it
hands iterations to a ``Runner`` and needs only the buckets and the metadata store."""
