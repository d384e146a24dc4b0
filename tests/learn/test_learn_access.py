"""Who is let in to the page: the token, the cookie, Host and Origin, of requests and websockets."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from grader.learn.learn_access import LearnAccess

PORT = 8731
HERE = f"http://127.0.0.1:{PORT}"
COOKIE = f"learn_{PORT}"


async def page(request):
    return PlainTextResponse("the page")


async def talk(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("welcome")
    await websocket.close()


@pytest.fixture
def access() -> LearnAccess:
    routes = [
        Route("/{path:path}", page, methods=["GET", "POST"]),
        WebSocketRoute("/ws", talk),
    ]
    return LearnAccess(Starlette(routes=routes), PORT)


@pytest.fixture
def stranger(access) -> TestClient:
    """A client that was not given the address."""
    return TestClient(access, base_url=HERE, follow_redirects=False)


@pytest.fixture
def friend(access, stranger) -> TestClient:
    """A client that came by the address, and has the cookie."""
    cookie = stranger.get(f"/?token={access.token}").cookies[COOKIE]
    return TestClient(access, base_url=HERE, follow_redirects=False, cookies={COOKIE: cookie})


def test_the_address_gives_a_cookie_and_leads_to_an_address_without_the_token(access, stranger):
    answer = stranger.get(f"/learn/ex01_softmax?token={access.token}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/learn/ex01_softmax")
    given = answer.headers["set-cookie"].lower()
    assert "httponly" in given and "samesite=strict" in given
    assert stranger.get("/").text == "the page"


def test_without_token_or_cookie_nothing_is_shown(stranger):
    for path in ("/", "/learn/ex01_softmax", "/?token=", "/?token=wrong", "/_nicegui/x.js"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert "the page" not in answer.text


def test_a_cookie_of_another_run_is_refused(stranger):
    stranger.cookies.set(COOKIE, "of-another-run")
    assert stranger.get("/").status_code == 403


def test_a_single_use_token_works_once(access, stranger):
    token = access.new_single_use_token()
    assert stranger.get(f"/?token={token}").status_code == 303
    stranger.cookies.clear()
    assert stranger.get(f"/?token={token}").status_code == 403


def test_the_redirect_stays_on_this_host(access, stranger):
    answer = stranger.get(f"{HERE}//elsewhere.example/x?token={access.token}")
    assert answer.headers["location"] == "/elsewhere.example/x"


@pytest.mark.parametrize(
    "host",
    ["elsewhere.example", f"elsewhere.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""],
)
def test_another_host_is_refused_even_with_the_cookie(friend, host):
    assert friend.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://elsewhere.example",
        f"http://127.0.0.1:{PORT + 1}",
        f"https://127.0.0.1:{PORT}",
        "null",
        "",
    ],
)
def test_a_page_of_another_origin_is_refused_even_with_the_cookie(friend, origin):
    assert friend.get("/", headers={"Origin": origin}).status_code == 403
    assert friend.post("/", headers={"Origin": origin}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        friend.websocket_connect("/ws", headers={"Origin": origin, "Host": f"127.0.0.1:{PORT}"}),
    ):
        pass


def test_a_read_that_another_site_began_is_refused(friend):
    assert friend.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert friend.get("/", headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_a_write_needs_an_origin(friend):
    assert friend.post("/").status_code == 403
    assert friend.post("/", headers={"Origin": HERE}).status_code == 200


def test_a_websocket_needs_cookie_and_origin(friend, stranger):
    headers = {"Origin": HERE, "Host": f"127.0.0.1:{PORT}"}
    with friend.websocket_connect("/ws", headers=headers) as websocket:
        assert websocket.receive_text() == "welcome"
    for client, sent in ((stranger, headers), (friend, {"Host": headers["Host"]})):
        client.cookies = client.cookies if client is friend else {}
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws", headers=sent):
            pass


def test_every_page_forbids_frames_and_other_places(friend):
    headers = friend.get("/").headers
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert f"connect-src 'self' ws://127.0.0.1:{PORT};" in policy
    assert "http" not in policy
    assert headers["x-frame-options"] == "DENY"
