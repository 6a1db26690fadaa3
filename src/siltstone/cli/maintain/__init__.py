"""``siltstone maintain …``, a file for each command; ``options`` they share, ``tables`` and ``documents`` (JSON) show
plans and reports."""
