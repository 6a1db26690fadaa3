"""Floor 12: the pytest plugin, which pytest loads when siltstone is installed; ``fixtures`` has all of it."""
