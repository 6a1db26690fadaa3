"""``python -m siltstone``: the program ``siltstone``, where its folder is not on the path."""

from siltstone.cli.program import main

main()
