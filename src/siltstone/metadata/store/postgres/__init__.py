"""The adapter for PostgreSQL. Only ``metadata.store.opening`` imports it, as psycopg is optional; ``place`` needs none.

Reading order: ``place`` (the URL), ``connection`` (deadlines, lost connections), ``tables``, ``log``, ``turns``
(writers queue), ``news`` (followers are notified).
"""
