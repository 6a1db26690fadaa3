"""Floor 0: small algorithms the standard library lacks. Pure; knows nothing of streams."""
