"""Floor 4: who owns what, and which object holds which offsets.

Reading order: ``commands`` (what can be asked) and ``refusals`` (why not), ``records`` (what happened), ``entities``
and ``image`` (what is), ``decisions`` (pure: image and command give records or a refusal), ``applying`` (records onto
an image), ``log_entry`` and ``snapshot`` (their bytes), ``store`` (the ordered log: SQLite), ``client`` (follows the
log, decides, appends), ``service`` (the client for an event loop, many waiting commands in one append). ``lookup``
answers reads, ``expiry`` tells the sweep what is due.
"""
