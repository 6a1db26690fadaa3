"""Stream engines, write-ahead logs and stores that fail, for tests."""
