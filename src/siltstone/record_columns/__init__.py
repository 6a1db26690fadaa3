"""Floor 3: many record batches at once, as columns. Frames of a block → batches → decompressed records → Arrow.

A column holds one field of all batches or of all records, as a numpy array, so that a program in machine code handles
millions of records in a second. Key compaction judges records by these columns, and a scan gives them to a user as
Arrow. Nothing here reads from a bucket, and ``arrow`` is the only module that imports pyarrow.

Reading order: ``kernels`` (the inner loops, and the layout of the arrays), ``batches`` (the batches of a block),
``chunking`` (their records, decoded in bounded portions), ``arrow``, which
also goes the other way: columns of rows, for a sink.
"""
