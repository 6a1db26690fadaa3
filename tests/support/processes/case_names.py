"""Makes names of parametrised tests that are the same in every process: no addresses are in them."""

import re


def name_of(value: object) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
