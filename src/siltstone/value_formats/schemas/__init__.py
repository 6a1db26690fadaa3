"""The sources of schemas: the port ``Registry``, a folder, a registry over HTTP, and schemas in memory.

An id names one schema for ever, so a schema that was fetched once is kept. The newest schema of a subject may change at
any time and is asked for again. Reading order: ``port``, ``held``, ``folder``, ``http``, ``opening``."""
