"""Floor 2: the bytes that Siltstone writes, and the values they encode. Pure: bytes in, values out.

Each persisted format has one module, with the layout in its docstring and encode and decode beside each other. A *batch
frame* is one record batch; the write-ahead log wraps each frame in a record, and frames of one stream make a block of
an object. Blocks, their index and a footer make an object.

=================  ====================================================================================
``batch_frame``    one record batch, the same bytes in the write-ahead log and in a block
``log_file``       one file of the write-ahead log
``wal_object``     one object of a write-ahead log in a bucket
``block_index``    the index of an object's blocks, and the check of a block against its entry
``object_layout``  builds an object from batches, with its footer, and finds the index in its last bytes
``identity``       the small files that bind a log folder and a bucket to their store
=================  ====================================================================================
"""
