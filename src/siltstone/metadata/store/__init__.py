"""The storage of the metadata log: ``port`` is the interface, ``sqlite`` (with ``sqlite_file``) and ``memory``
implement it, ``opening`` opens the log that a URL names. The adapters store bytes; they decode no record and check no
rule."""
