"""Floor 8: the stream engine. It appends batches to streams, uploads them as objects and reads them. The contents of
a batch are opaque here.

The flow: an *append* gives a *batch* its offsets and is written to the *write-ahead log* (WAL). When the log is
durable, the batch enters the active *cache block* of the *tail cache*, the stream *confirms* its offsets, and the
append is answered. A block that is large or old enough is *sealed*, *uploaded* as objects and *committed* to the
metadata; then the log is *trimmed*. A read takes batches from the tail cache, and from committed objects what the
cache no longer holds. *Recovery* uploads what the log of an earlier start holds and no object does.

Reading order: ``components`` and ``settings``, ``opening`` (with ``recovery``), ``engine``, ``stream`` (the offsets of
one open stream), ``append_queue`` (from the call to the answer), ``sealing``, ``wal``, ``tail``, ``upload``,
``stream_reads`` and ``reading``. ``errors`` has the engine's own errors.
"""
