"""The pages in a real browser: nothing overlaps, scrolls sideways, fades into its ground or asks anybody else."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from apps.signal.tests.web.conftest import Pages

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="the pages weren't tried in a browser: chromium and chromium-driver aren't installed",
)
PAGES = ["/", "/sources", "/sources?show=failing", "/source/1", "/source/6", "/source/8", "/source/16", "/queue",
         "/entry/1", "/entry/2", "/entry/5", "/entry/9", "/entry/10", "/entry/12",
         "/search?q=river", "/nope"]  # fmt: skip
PHONE, DESK = 390, 1280
LOOK = (Path(__file__).parent / "look.js").read_text("utf-8")
"""What is wrong with the page that is shown, as a list of sentences."""


class Browser:
    def __init__(self, driver: WebDriver, pages: Pages) -> None:
        self.driver, self.pages = driver, pages

    def show(self, path: str, *, width: int, scheme: str = "light", lang: str = "en") -> None:
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500
        )
        query = "&" if "?" in path else "?"
        self.driver.get(f"http://127.0.0.1:{self.pages.port}{path}{query}lang={lang}")

    def command(self, name: str, **values: object) -> None:
        self.driver.execute_cdp_cmd(name, values)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def complaints(self) -> list[str]:
        return [line["message"] for line in self.driver.get_log("browser")]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    assert CHROMIUM is not None
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("chromium")
    flags = ["headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-background-networking"]
    for flag in (*flags, "no-first-run", "hide-scrollbars", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver: WebDriver, pages: Pages) -> Browser:
    return Browser(driver, pages)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_overlaps_scrolls_sideways_or_fades(browser: Browser, path: str, width: int) -> None:
    for scheme in ("light", "dark"):
        for lang in ("en", "ru"):
            browser.show(path, width=width, scheme=scheme, lang=lang)
            assert browser.run(LOOK) == [], (scheme, lang)
            expected = [" 404 "] if path == "/nope" else []
            assert [one for one in browser.complaints() if not any(known in one for known in expected)] == []


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("document.querySelector('.list h2').style.marginBottom = '-1.2em'", "overlap"),
        ("document.querySelector('.list').style.width = '500px'", "scrolls sideways"),
        ("document.querySelector('.text').style.color = '#999'", "contrast"),
        ("document.documentElement.lang = ''", "no language"),
    ],
    ids=["overlap", "scroll", "contrast", "language"],
)
def test_a_fault_of_a_page_is_seen(browser: Browser, fault: str, complaint: str) -> None:
    browser.show("/", width=PHONE)
    browser.run(fault)
    assert any(complaint in one for one in browser.run(LOOK))


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("lang", ["en", "ru"])
def test_reason_success_and_due_are_there_without_a_click(browser: Browser, width: int, lang: str) -> None:
    browser.show("/sources", width=width, lang=lang)
    rows = browser.run("""
        return [...document.querySelectorAll('.sources tbody tr')].map(row => ['.reason', '.ok', '.due', '.failures']
          .map(name => row.querySelector(name)).map(cell => {
            const box = cell.getBoundingClientRect();
            return [cell.innerText.trim(), cell.checkVisibility(), box.width > 30, box.height > 12,
                    box.left >= 0, box.right <= innerWidth];
          }));
    """)
    assert len(rows) == 17
    for row in rows:
        for text, *facts in row:
            assert text
            assert all(facts), (text, facts)
    words = {text for row in rows for text, *_ in row}
    expected = {
        "en": {"the server has a fault", "3 d ago", "in 12 min", "12/12", "overdue by 3 h", "paused", "never"},
        "ru": {"ошибка сервера", "3 д назад", "через 12 мин", "12/12", "просрочен: 3 ч", "приостановлен", "не было"},
    }
    assert {w.lower() for w in expected[lang]} <= {text.rsplit("\n", 1)[-1].lower() for text in words}


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_keyboard_leads_through_the_page(browser: Browser, width: int) -> None:
    browser.show("/sources", width=width)
    seen = []
    for _ in range(12):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(
            browser.run("""
            const focused = document.activeElement, style = getComputedStyle(focused);
            const box = focused.getBoundingClientRect();
            return [focused.innerText, style.outlineStyle, parseFloat(style.outlineWidth),
                    box.right > 0 && box.width > 0];
        """)
        )
    assert seen[0][0] == "to the content"
    for text, style, size, on_screen in seen:
        assert style != "none", text
        assert size >= 2, text
        assert on_screen, text


def test_hostile_text_runs_nothing_and_asks_nobody(browser: Browser) -> None:
    for path in ("/sources", "/queue", "/source/16", "/entry/9", "/entry/1"):
        browser.show(path, width=DESK)
        assert browser.run("return document.scripts.length + document.images.length") == 0
        asked = browser.run("return performance.getEntriesByType('resource').map(one => new URL(one.name).host)")
        assert set(asked) <= {f"127.0.0.1:{browser.pages.port}"}
        assert browser.complaints() == []


def test_the_policy_stops_a_script_that_came_through(browser: Browser) -> None:
    """The last wall, if all others fell."""
    browser.show("/", width=DESK)
    browser.run("""
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);
        const image = document.createElement('img');
        image.src = 'http://127.0.0.1:9/x.png';
        document.body.append(image);
    """)
    assert browser.run("return window.ran === undefined")
    assert len([one for one in browser.complaints() if "Content Security Policy" in one]) == 2


def test_search_by_its_form(browser: Browser) -> None:
    browser.show("/search", width=PHONE, lang="ru")
    browser.driver.find_element(By.NAME, "q").send_keys("перезапусков", Keys.ENTER)
    assert browser.driver.find_element(By.TAG_NAME, "mark").text == "перезапусков"
    assert "lang=ru" in browser.driver.current_url
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_wide_table_scrolls_within_itself_and_breaks_no_word(browser: Browser, width: int) -> None:
    browser.show("/entry/10", width=width)
    sizes = browser.run("""
        const wide = document.querySelector('.wide'), cell = wide.querySelector('tr:last-child td');
        return [wide.scrollWidth > wide.clientWidth, cell.clientHeight, parseFloat(getComputedStyle(cell).lineHeight)];
    """)
    assert sizes[0]
    assert sizes[1] < 2 * sizes[2]  # "1,234,567.89" stands in one line
