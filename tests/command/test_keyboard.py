"""The keyboard of an interview: lines as they come, in pieces, broken, or not at all."""

import os

import pytest

from grader.practice.interview import keyboard
from grader.practice.interview.keyboard import Keyboard


@pytest.fixture
def typed():
    """typed(bytes, ...) -> a keyboard on a pipe, and what writes to it."""
    reading, writing = os.pipe()
    yield Keyboard(reading), lambda content: os.write(writing, content), lambda: os.close(writing)
    os.close(reading)


def test_lines_come_one_by_one_in_any_alphabet(typed):
    keys, write, _ = typed
    write("方差\r\ndone\n".encode())
    assert [keys.line(0), keys.line(0), keys.line(0)] == ["方差", "done", None]


def test_half_a_line_is_none_yet(typed):
    keys, write, _ = typed
    write("方".encode()[:2])
    assert keys.line(0) is None
    write("方".encode()[2:] + b"\n")
    assert keys.line(0) == "方"


def test_what_is_no_utf8_is_no_error(typed):
    keys, write, _ = typed
    write(b"\xff\n")
    assert keys.line(0) == "\N{REPLACEMENT CHARACTER}"


def test_the_last_line_needs_no_end(typed, monkeypatch):
    keys, write, close = typed
    write(b"half")
    close()
    assert [keys.line(0), keys.line(0)] == [None, "half"]
    slept = []
    monkeypatch.setattr(keyboard.time, "sleep", slept.append)
    assert keys.line(1.0) is None
    assert (keys.closed, slept) == (True, [1.0])


def test_an_input_that_is_closed_at_once_hands_nothing_in(typed):
    keys, _, close = typed
    close()
    assert keys.line(0) is None
    assert keys.closed


def test_an_answer_ends_with_an_empty_line_or_the_input(typed, monkeypatch):
    keys, write, close = typed
    monkeypatch.setattr(keyboard.time, "sleep", lambda seconds: None)
    write(b"one\ntwo\n\nthree")
    close()
    assert [keys.text(), keys.text(), keys.text()] == ["one\ntwo", "three", ""]


def test_without_a_standard_input_nothing_is_typed(monkeypatch):
    monkeypatch.setattr(keyboard.sys, "stdin", None)
    assert Keyboard().closed
