"""Pure: image and indexes in, plans out. No I/O, no clock, no randomness."""
