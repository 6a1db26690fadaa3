"""Consumer groups for tests: members, worlds, logs in memory."""
