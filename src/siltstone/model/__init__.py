"""Floor 1: the nouns of the store, as immutable values. Start reading here.

A producer appends *record batches* to a *stream*. Batches of one stream, one after another, make a *block*; blocks and
an index make an *object* in a bucket: a *stream set object* (many streams) or a *stream object* (one stream). A
Kafka partition is backed by streams; its offsets are divided into *segments*, the units that retention drops.

=================  ===========================================================================================
``buffers``        buffers that are passed around instead of copied
``record_batch``   record batches, and the index entries of blocks
``objects``        objects, the ranges of streams in them, and their keys in a bucket
``segments``       closed and active segments
``errors``         the errors the store raises on purpose, classed by what the caller does next
``limits``         defaults and limits with their reasons
``version``        the version of the package
=================  ===========================================================================================
"""
