"""The drivers, one for each client. Those in Python share ``serving`` (the lines) and ``scenario`` (the arguments of
a scenario)."""
