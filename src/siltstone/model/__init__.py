"""Floor 1: the nouns of the store. Start reading here: identifiers, offset ranges, record batches,
objects, blocks, limits, errors. Pure values, no behaviour beyond their own invariants."""
