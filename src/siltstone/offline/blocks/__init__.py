"""Blocks of objects as columns, shared by the planning and the tasks of the compactions. ``columns`` (index entries
as a table, and the reads that fetch their blocks), ``joining`` (neighbouring blocks become one index entry),
``indexes`` (reads the indexes of many objects; the only module here that does I/O).
"""
