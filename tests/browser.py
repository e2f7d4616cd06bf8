"""A headless Chromium for the tests of pages, where there is one.

Debian's packages `chromium` and `chromium-driver` are enough. Without them tests are skipped with
the reason; with INFEROSTATIC_BROWSER=1, as in continuous integration, they fail instead.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: Set where a browser must be there.
REQUIRED = os.environ.get("INFEROSTATIC_BROWSER") == "1"
#: Without a window, and in containers without a sandbox or much shared memory.
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)


def _absence() -> str:
    """Why there is no browser; empty where there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no browser tests: pip install selenium"
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        return f"no browser tests: no {' and no '.join(missing)} (apt-get install chromium-driver)"
    return ""


@contextmanager
def open_browser(downloads: Path) -> Iterator[Any]:
    """A browser that keeps what its console and its network report."""
    absence = _absence()
    if absence and REQUIRED:
        pytest.fail(f"{absence}; INFEROSTATIC_BROWSER=1 asks for them")
    if absence:
        pytest.skip(absence)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    logged = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logged)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def show_page(driver: Any, path: Path, *, width: int = 1200, dark: bool = False) -> None:
    """Open a file at a width, in light or dark colours."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get("about:blank")
    for kind in ("browser", "performance"):
        driver.get_log(kind)  # what came before
    driver.get(path.as_uri())


def list_requests(driver: Any) -> list[str]:
    """What the page asked for since it was opened, by address."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [one["request"]["url"] for one in asked]
