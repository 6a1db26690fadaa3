"""Commands, threads and names of tests."""
