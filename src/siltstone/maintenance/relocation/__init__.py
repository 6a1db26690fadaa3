"""Relocation: the objects of a bucket that is drained are copied into other buckets, byte for byte, under new ids.

``planning`` (which objects, and what their copies are; pure), ``carrying_out`` (a wave of copies: one run of the tasks
of ``stream_object_compaction``, a commit for each object), ``kind`` (plans and carries out).
"""
