"""The records inside a batch: ``reading``, ``validation``, ``building`` and ``compression``.

Most batches are appended and fetched without any of this: the broker patches their headers and leaves the records as
they are. Also here: ``looking_up`` finds offsets by time, ``control`` builds and reads the batches that end
transactions. Read next: ``reading``, which draws the layout of a record.
"""
