"""Blocks of objects as columns: what planning and tasks of the compactions share. ``columns`` (index entries as a
table, and the reads that fetch them), ``joining`` (neighbouring blocks become one index entry), ``indexes`` (reading
the indexes of many objects; the only module here that does I/O).
"""
