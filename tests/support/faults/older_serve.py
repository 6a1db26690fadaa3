"""``siltstone`` as it was before the metadata log had some record:

    python -m support.faults.older_serve NodeDraining serve …
    python -m support.faults.older_serve transaction.version=1 serve …

Such a program differs from this one in what it can decode. So the record is taken out of the union by which entries of
the log are decoded, and nothing else is changed. Or it has a lower level of a feature that all nodes promise.
"""

import sys
from typing import Union, get_args

import msgspec

from siltstone.metadata import log_entry
from siltstone.metadata.features import FEATURES
from siltstone.metadata.records import Record


def forget(name: str) -> None:
    """Makes this process one that never heard of the record."""
    known = [record for record in get_args(Record) if record.__name__ != name]
    assert len(known) == len(get_args(Record)) - 1, f"there is no record {name}"
    union = Union[tuple(known)]  # type: ignore[valid-type]  # noqa: UP007
    log_entry._decoder = msgspec.msgpack.Decoder(tuple[union, ...])  # type: ignore[valid-type]


if __name__ == "__main__":
    feature, _, level = sys.argv[1].partition("=")
    if level:
        FEATURES[feature] = int(level)
        del sys.argv[1]
    else:
        forget(sys.argv.pop(1))
    from siltstone.cli.program import main

    sys.exit(main())
