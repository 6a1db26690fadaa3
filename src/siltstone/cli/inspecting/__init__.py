"""``siltstone inspect``: ``source`` finds the object that was named, ``anatomy`` decodes its bytes, ``tables`` shows
the result."""
