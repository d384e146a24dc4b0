"""Sends headers as frames: four bytes of magic, four bytes of length, and a JSON object.

Imports neither numpy nor torch, so that a process can send frames before it imports them.
"""

import json
import socket
import struct
from collections.abc import Callable
from typing import Any, NoReturn

FRAME_MAGIC = b"ABH1"
MAX_HEADER_BYTES = 1 << 20  # bytes
DEVICE_LOST_STATUS = 71  # the exit code of a worker that has lost its GPU
_PREFIX = struct.Struct("<4sI")


class WireError(Exception):
    """Raised when a frame or value is broken, too large, or does not have the form it claims."""


def encode_frame(header: dict[str, Any]) -> bytes:
    """Return a header as the bytes of one frame."""
    body = _ENCODER.encode(header).encode()
    if len(body) > MAX_HEADER_BYTES:
        raise WireError(f"a header of {len(body):,} bytes; at most {MAX_HEADER_BYTES:,} are sent")
    return _PREFIX.pack(FRAME_MAGIC, len(body)) + body


def send_frame(sock: socket.socket, header: dict[str, Any]) -> None:
    """Send one frame; a `WireError` is raised before anything is sent."""
    sock.sendall(encode_frame(header))


def receive_frame(read: Callable[[int], bytes]) -> dict[str, Any]:
    """Read one frame with `read(n)`, which returns exactly n bytes or raises."""
    magic, size = _PREFIX.unpack(read(_PREFIX.size))
    if magic != FRAME_MAGIC or size > MAX_HEADER_BYTES:
        raise WireError("a frame that does not begin as a frame does")
    body = read(size)
    try:
        header = _JSON.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise WireError("a header that is not JSON") from None
    if not isinstance(header, dict):
        raise WireError("a header that is not an object")
    return header


def _build_frame_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key that is there twice")
    return found


def _refuse_frame_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False)  # a header is a tree
_JSON = json.JSONDecoder(
    object_pairs_hook=_build_frame_object, parse_constant=_refuse_frame_constant
)
