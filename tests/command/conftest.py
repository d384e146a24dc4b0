"""What the tests of commands have in common."""

import pytest

from tests.command.here import take_one_nursery


@pytest.fixture
def one_nursery(nursery, monkeypatch) -> None:
    """Commands that run in this process take the nursery of all tests."""
    take_one_nursery(monkeypatch, nursery)
