"""Of long lists `make test` asks a part, always the same one; `make test ALL=1` asks all."""

import os
import zlib

import pytest

ALL = os.environ.get("ALL") == "1"

# On what looks long at something that shorter tests look at as well.
long = pytest.mark.skipif(not ALL, reason="long: make test ALL=1 asks it")


def part(cases, name, one_in):
    """One case in so many, chosen by its name: what others there are does not matter."""
    return [c for c in cases if ALL or zlib.crc32(name(c).encode()) % one_in == 0]
