"""Runs the page's server in a thread of its own, on the loopback interface."""

import asyncio
import socket
import threading
from types import TracebackType

import uvicorn
from fastapi import FastAPI
from nicegui import ui

from grader.core.errors import UserError
from grader.core.translation import Words
from grader.learn.learn_access import PARAMETER, LearnAccess
from grader.learn.learn_page import build_learn_pages
from grader.learn.learn_state import LearnState

LOOPBACK = "127.0.0.1"
# The first is tried first: a browser keeps what was not saved under the port of the page.
PREFERRED_PORTS = range(8730, 8740)
START_SECONDS = 30.0
# How long a tab that lost its connection finds its page as it was; later it is loaded anew. The
# clock stands still while the machine sleeps.
RECONNECT_SECONDS = 60.0
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 19 19" fill="#2a4bb8">'
    + "".join(
        f'<rect x="{5 * key}" y="{5 * row}" width="4" height="4" rx="1" '
        f'opacity="{1 if key <= row else 0.25}"/>'
        for row in range(4)
        for key in range(4)
    )
    + "</svg>"
)


class NoServer(UserError):
    """Raised if the page cannot be served; the message is a sentence."""


class LearnServer:
    """The page's server while its block runs; `address` opens the page."""

    def __init__(self, state: LearnState, start: str, port: int | None = None) -> None:
        self._socket = _open_page_socket(state.words, port)
        self.port: int = self._socket.getsockname()[1]
        app = FastAPI(openapi_url=None)
        build_learn_pages(state, start)
        ui.run_with(
            app, favicon=ICON, tailwind=False, reconnect_timeout=RECONNECT_SECONDS,
            show_welcome_message=False, title="Attention by Hand",
        )  # fmt: skip
        self.access = LearnAccess(app, self.port)
        self._server = uvicorn.Server(uvicorn.Config(
            self.access, log_level="error", lifespan="on", ws_max_size=4 << 20,
            server_header=False, timeout_graceful_shutdown=1,
        ))  # fmt: skip
        self._thread = threading.Thread(target=self._serve, name="learn page", daemon=True)

    @property
    def address(self) -> str:
        """Return the address with the token that opens the page again and again."""
        return self._address(self.access.token)

    def single_use_address(self) -> str:
        return self._address(self.access.new_single_use_token())

    def __enter__(self) -> "LearnServer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def _address(self, token: str) -> str:
        return f"http://{LOOPBACK}:{self.port}/?{PARAMETER}={token}"


def _open_page_socket(words: Words, port: int | None) -> socket.socket:
    """Return a socket that listens on the wanted port, or on the first of ours that is free."""
    for number in [port] if port is not None else [*PREFERRED_PORTS, 0]:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((LOOPBACK, number))
            found.listen()
        except (OSError, OverflowError):
            found.close()
            continue
        return found
    raise NoServer(words("Port {port} is taken: name another, or none.", port=port))
