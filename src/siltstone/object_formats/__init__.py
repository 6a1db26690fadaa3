"""Floor 2: our bytes and the values they stand for. Each persisted thing has one file with its layout
drawn in the docstring and encode and decode beside it. Pure: bytes in, values out."""
