"""Topics as clients know them: ``names`` (which are legal, and refusals), ``registry`` (the topics that exist, with
their configurations) and ``creating``. Read next: ``registry``."""
