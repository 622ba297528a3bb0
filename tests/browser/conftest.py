"""A browser that is there already: the system's Chromium, without a window."""

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Chromium, where it and playwright are installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser is installed ({', '.join(NAMES)})")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def opened(browser):
    """Opens a file as a page of a given width and theme, and sees that it logs nothing and asks for nothing else."""

    @contextmanager
    def open_page(path, width=1400, theme="light", **options):
        said, asked = [], []
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        yield page
        page.close()
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]

    return open_page
