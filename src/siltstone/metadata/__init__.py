"""Floor 4: the metadata. It records which node owns which stream, and which object holds which offsets.

The nouns: a *command* asks for a change. A *decision* turns the image and a command into *records* (facts) and a
result, or into a *refusal*. Records are appended to an ordered *log*, one *entry* for each append. Folding all records
in log order gives the *image*: the nodes, streams, objects, jobs and topics at one version of the log. A *snapshot* is
an image in bytes; it replaces the entries before it.

Reading order: ``commands`` and ``refusals``, ``records``, ``entities`` and ``image``, ``decisions`` (pure functions),
``streams`` (pure steps of one stream's metadata), ``applying`` (folds records into an image), ``log_entry`` and
``snapshot`` (both are sealed frames), ``store`` (keeps the log: SQLite, PostgreSQL, or memory in tests),
``client`` (follows the log, decides, appends), ``service`` (the client for an event loop: waiting commands share one
append). ``lookup`` selects from an image what reads and the sweep need; ``store_id`` is the store's own id. ``leases``
is the board of beats beside the log.
"""
