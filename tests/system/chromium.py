"""A headless Chromium, driven by what WebDriver prescribes: JSON over HTTP to Debian's driver."""

import http.client
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

PACKAGES = ("chromium", "chromium-driver")
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",  # which root needs
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
_STARTED = re.compile(r"started successfully on port (\d+)")


@final
class Browser:
    """One window of it."""

    def __init__(self, port: int, profile: Path) -> None:
        self._port, self._path = port, "/session"
        options = {"args": [*_ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._path = f"/session/{made['sessionId']}"

    def open(self, page: Path) -> None:
        """Show a file; what it had said before is forgotten."""
        self._ask("POST", "/url", {"url": page.absolute().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns, which finds its `arguments` there."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def complaints(self) -> list[str]:
        """What the console has been told since the last time, whatever its weight."""
        told = self._ask("POST", "/se/log", {"type": "browser"})
        return [f"{one['level']} {one['message']}" for one in told]

    def resize(self, width: int, height: int) -> None:
        """Have a window of this size, however small."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._control("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, colours: str) -> None:
        """Have the system prefer light or dark."""
        feature = {"name": "prefers-color-scheme", "value": colours}
        self._control("Emulation.setEmulatedMedia", {"features": [feature]})

    def click(self, element: Any) -> None:
        """As a person does, who sees the element and moves the pointer to it."""
        self._show(element)
        (identity,) = element.values()
        self._ask("POST", f"/element/{identity}/click", {})

    def point_at(self, element: Any) -> None:
        """Move the pointer to the middle of an element."""
        self._show(element)
        moves = [
            {"type": "pointerMove", "duration": 0, "origin": element, "x": x, "y": 0}
            for x in (-5, 0)
        ]
        mouse = {"type": "pointer", "id": "mouse", "actions": moves}
        self._ask("POST", "/actions", {"actions": [mouse]})

    def screenshot(self) -> str:
        """The window as a PNG, in base64."""
        return str(self._ask("GET", "/screenshot", None))

    def close(self) -> None:
        self._ask("DELETE", "", None)

    def _show(self, element: Any) -> None:
        """At once, and not below what stays at the top of the page."""
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)

    def _control(self, command: str, parameters: dict[str, Any]) -> None:
        self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _ask(self, method: str, what: str, values: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        body = None if values is None else json.dumps(values)
        connection.request(method, self._path + what, body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{what}: {answer['error']}: {answer.get('message')}")
        return answer


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser; it is gone afterwards, and its folder with it."""
    with tempfile.TemporaryDirectory(prefix="phalanx-chromium-") as folder:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert driver.stdout is not None
            said = (_STARTED.search(line) for line in driver.stdout)
            port = next(int(found.group(1)) for found in said if found)
            browser = Browser(port, Path(folder))
            yield browser
            browser.close()
        finally:
            driver.kill()
            driver.communicate()
