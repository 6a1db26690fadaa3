"""The audit: what happened becomes records of the topic ``__siltstone_audit``.

``trail`` hears of events, ``gathering`` bounds and counts them, ``writing`` appends them, each second. Nothing that
happens waits for the audit. The nouns are in ``model.audit``; ``metadata.changes`` says what a command is in the audit.
"""
