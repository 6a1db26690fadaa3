"""One driver per client. The Python ones share ``serving`` (the lines) and ``scenario`` (what a scenario is given)."""
