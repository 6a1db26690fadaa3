"""Floor 3: clock, randomness, supervised tasks, blocking calls off the event loop, logs, metrics."""
