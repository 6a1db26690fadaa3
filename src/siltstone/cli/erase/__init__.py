"""``siltstone erase`` and ``siltstone erasures``: all records of some keys leave a topic, with a report of where they
were.

``command`` (asks for an erasure, or shows what it would do), ``erasures`` (lists, resumes, reports, forgets),
``following`` (carries one out, with progress), ``showing`` (tables and lines), ``signing`` (signed reports).
"""
