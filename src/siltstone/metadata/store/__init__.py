"""Where the metadata log is kept. ``port`` says what a log does, ``sqlite`` and ``memory`` do it, ``opening`` finds the
one a URL names. Adapters store bytes; they know no record and no rule."""
