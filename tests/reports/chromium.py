"""A headless Chromium, driven by its debugging protocol over two pipes: no port, no other package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

__all__ = ["Chromium", "Page", "find_chromium"]

#: Far more than a page takes on a busy machine.
SECONDS = 90.0
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """The program, under one of its names."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Chromium:
    """One browser with an empty profile in ``folder``; :meth:`close` ends it."""

    def __init__(self, program: str, folder: Path) -> None:
        to_browser, self._send = os.pipe()
        self._receive, from_browser = os.pipe()
        # High enough that moving them to 3 and 4 overwrites neither.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_browser, from_browser)]

        def as_the_browser_wants_them() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, *_ARGUMENTS, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=as_the_browser_wants_them,
            close_fds=False,
            start_new_session=True,
        )
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self._buffer = b""
        self._number = 0
        #: Everything that was not an answer: events of pages.
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def page(self) -> Page:
        """A new page, with network, log and script errors recorded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.ask(f"{domain}.enable")
        return page

    def close(self) -> None:
        """End it and all of its processes."""
        try:
            self.ask("Browser.close")
        finally:
            for end in (self._send, self._receive):
                os.close(end)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._receive, 1 << 20)
            assert part, f"the browser has ended ({self._process.poll()})"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        #: The addresses of :meth:`open`.
        self.opened: set[str] = set()
        #: A part of the errors that a test provokes.
        self.expected = ""

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    def look(self, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """The size of the window, and whether its user likes it light or dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def open(self, file: Path) -> float:
        """Open a report; seconds from the beginning until all of it is painted for the first time."""
        address = file.absolute().as_uri()
        self.opened.add(address)
        self.ask("Page.navigate", url=address)
        painted = (
            "new Promise((done) => { const look = () => document.documentElement?.dataset.ready"
            " ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))"
            " : setTimeout(look, 5); look(); })"
        )
        return float(self.run(painted)) / 1000

    def run(self, expression: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """What the elements that match show."""
        return list(self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText.trim())"))

    def click(self, selector: str, number: int = 0) -> None:
        self.run(f"document.querySelectorAll({json.dumps(selector)})[{number}].click()")

    def press(self, key: str, text: str = "", modifiers: int = 0) -> None:
        """A key, as from the keyboard; ``text`` is what it types. Modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = codes.get(key, ord(key.upper()[0]))
        given = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        typed = {"text": text} if text else {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **given, **typed)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **given)
        self.settle()

    def type(self, text: str) -> None:
        """Into whatever has the focus; waits until the search has followed."""
        self.ask("Input.insertText", text=text)
        self.run("new Promise((done) => setTimeout(done, 250))")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked for is painted."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def screenshot(self, file: Path, *, full: bool = False) -> None:
        image = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        file.write_bytes(base64.b64decode(image["data"]))

    def happened(self, method: str) -> list[dict[str, Any]]:
        """The events of this name, of this page."""
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == method
        ]

    @property
    def errors(self) -> list[str]:
        """What scripts threw, and what the browser's console complains of."""
        thrown = [
            event["exceptionDetails"].get("exception", {}).get("description", "?")
            for event in self.happened("Runtime.exceptionThrown")
        ]
        logged = [event["entry"]["text"] for event in self.happened("Log.entryAdded")]
        return thrown + logged

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", targetId=self._target)
