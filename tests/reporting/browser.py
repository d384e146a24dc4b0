"""Pages in headless Chromium, over its DevTools protocol on a pipe."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip
# Chromium reads commands from descriptor 3 and writes answers to 4; either may be taken before.
START = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
ABOVE = 10


class Page:
    """One tab, and everything that it has complained about or asked for."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = os.fdopen(answers, "rb")
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(
        self, path: Path | str, *, width: int = 1280, scheme: str = "light", media: str = ""
    ) -> None:
        """Show a file, or an address, at a width, in a colour scheme; earlier events are forgotten."""
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=media, features=preferred)
        self.send("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._receive()

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script: str, seconds: float = 60.0) -> Any:
        """The value of an expression on the page, as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)
        return value

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        image = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=self.run(
            "({x: 0, y: 0, width: innerWidth, height: document.documentElement.scrollHeight, scale: 1})"
        ))  # fmt: skip
        path.write_bytes(base64.b64decode(image["data"]))

    @property
    def complaints(self) -> list[str]:
        """What stands in the console: errors, warnings, what was logged."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(e["params"]) for e in self.events if e["method"] in kinds]

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for, the page's own among them."""
        asked = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [e["params"]["request"]["url"] for e in asked]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = self._answers.read1(65536)
            assert chunk, "Chromium has ended"
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        if "method" in answer:
            self.events.append(answer)
        return answer


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page of a browser that keeps its profile in `folder` and ends with the block."""
    assert PROGRAM is not None
    pipes = [*os.pipe(), *os.pipe()]
    theirs_in, ours_out, ours_in, theirs_out = (fcntl.fcntl(n, fcntl.F_DUPFD, ABOVE) for n in pipes)
    for n in pipes:
        os.close(n)
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(theirs_in), str(theirs_out), PROGRAM, *OPTIONS, f"--user-data-dir={folder}"],
        pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(ours_out, ours_in)
    finally:
        os.close(ours_out)  # it ends when nobody can command it any more
        process.wait(20)
