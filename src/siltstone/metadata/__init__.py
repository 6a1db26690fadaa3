"""Floor 4: who owns what, and which object holds which offsets.

Reading order: ``commands`` (what can be asked), ``records`` (what happened), ``image`` (what is), ``decisions``
(pure: image and command give records or a refusal), ``store`` (the ordered log: SQLite), ``client`` (follows the
log, decides, appends), ``service`` (the client for an event loop, many waiting commands in one append).
"""
