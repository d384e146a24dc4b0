"""Admits to the page only the browser that was given its address: token, cookie, Host, Origin.

The page runs on the loopback interface, which every program and every web page of this machine can
reach. A token that was drawn at the start stands in the address; the first visit exchanges it for a
cookie that scripts cannot read and other sites cannot send. Requests that name another host, or
that come from the page of another origin, are refused, those that open a websocket among them.
"""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST_NAMES = ("127.0.0.1", "localhost")
PARAMETER = "token"
_REFUSED = (  # before the page's language is known
    "This page belongs to whoever started it. Open the address that was printed in the terminal.\n"
    "这个页面只属于启动它的人。请打开终端里打印出的地址。\n"
)
_CLOSED_BY_POLICY = 1008  # the websocket's code
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# NiceGUI's templates need inline code; nothing may be loaded from, or sent to, another place.
_POLICY = (
    "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "connect-src 'self' ws://{host}; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class LearnAccess:
    """An ASGI application that passes admitted requests on, and refuses all others.

    `token` may be used again and again; `new_single_use_token` makes one that works once, for the
    command line of a browser, which other users of the machine may see.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in HOST_NAMES}
        self._cookie_name = f"learn_{port}"  # cookies of one host are shared by all its ports
        self._cookie = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)
        self._single_use: set[str] = set()

    def new_single_use_token(self) -> str:
        token = secrets.token_urlsafe(32)
        self._single_use.add(token)
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # the start and the end of the server
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._comes_from_here(scope, headers):
            await _refuse_page_request(scope, receive, send)
        elif self._has_cookie(headers):
            await self._app(scope, receive, _add_page_headers(send, headers["host"]))
        elif scope["type"] == "http" and self._has_token(scope):
            await self._admit(scope)(scope, receive, send)
        else:
            await _refuse_page_request(scope, receive, send)

    def _comes_from_here(self, scope: Scope, headers: Headers) -> bool:
        """Return whether a request names this host, and no page of another origin sent it."""
        if headers.get("host") not in self._hosts:  # a name that an attacker points at 127.0.0.1
            return False
        origin = headers.get("origin")
        if origin is None:
            reads = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
            return reads and headers.get("sec-fetch-site") in (None, "none", "same-origin")
        return origin == f"http://{headers['host']}"

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie_name)
        except CookieError:
            return False
        return found is not None and _are_tokens_equal(found.value, self._cookie)

    def _has_token(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get(PARAMETER, [""])[0]
        if _are_tokens_equal(given, self.token):
            return True
        if given in self._single_use:
            self._single_use.remove(given)
            return True
        return False

    def _admit(self, scope: Scope) -> Response:
        """Return the answer that sets the cookie and leads to the address without the token."""
        response = RedirectResponse(
            _strip_host_from_page_path(scope["path"]), status_code=303, headers=_HEADERS
        )
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return response


def _strip_host_from_page_path(path: str) -> str:
    """Return a path that cannot be read as the address of another host (`//host`)."""
    return "/" + path.lstrip("/\\")


def _are_tokens_equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


async def _refuse_page_request(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _CLOSED_BY_POLICY})
    else:
        await PlainTextResponse(_REFUSED, 403, headers=_HEADERS)(scope, receive, send)


def _add_page_headers(send: Send, host: str) -> Send:
    """Return a `send` that adds the headers of this page to every answer."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=_use_message_as_scope(message))
            headers.update({**_HEADERS, "Content-Security-Policy": _POLICY.format(host=host)})
        await send(message)

    return send_with_headers


def _use_message_as_scope(message: Message) -> dict[str, Any]:
    message.setdefault("headers", [])
    return message  # type: ignore[return-value]  # both are dictionaries with raw headers
