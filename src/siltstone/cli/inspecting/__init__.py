"""Looking into one object: ``source`` (which bytes), ``anatomy`` (what they say), ``tables`` (how it is shown)."""
