"""The page in a real browser: live, by keyboard, on a phone, without scripts, readable for all, and safe from text of
others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, expect

from autoscaler.core.cost.shares import Payer
from autoscaler.plain_text import plain
from autoscaler.store.overrides import Verb
from autoscaler.store.sessions import LENGTH
from autoscaler.store.usages import Run, RunKey
from tests.core.building import NOW, a_bucket, a_failure, a_host, a_job, a_snapshot, a_worker, jobs
from tests.page.in_browser import PHONE, a_browser, log_in, watched
from tests.page.shown import Site, served_apart
from tests.samples import thorough

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
AXE = Path(__file__).parents[2] / "build" / "axe" / "axe.min.js"
VIEWS = (
    *("./", "jobs", "workers", "lanes", "decisions", "cost", "cost?by=type", "actions", "act?verb=pause"),
    *("job?subject=4711", "worker?subject=w1", "login"),
)


@pytest.fixture
def busy(site: Site) -> Site:
    """A site with something of each kind."""
    site.observe(a_snapshot(a_job(4711, owner="ann", slots=2, waited=4200), now=NOW - 3600))
    site.observe(
        a_snapshot(
            a_job(4711, owner="ann", slots=100, waited=4200),
            jobs(40, first=5000, owner="bob", waited=600),
            a_host("master", slots=4, used=4),
            *(a_worker(f"w{number}", used=number % 3, price_per_hour=0.1) for number in range(1, 9)),
            a_failure(),
            a_bucket(),
        )
    )
    site.store.usages.begin([Run(RunKey("i-w1", 4700, 0), Payer("ann"), 1, NOW - 900)])
    site.store.overrides.ask(Verb.KEEP, who="eve", at=NOW, host="w3")
    site.now[0] = NOW + 5
    return site


@pytest.fixture
def browser() -> Iterator[BrowserContext]:
    with a_browser() as made:
        yield made


def test_a_pass_is_shown_within_two_seconds_without_a_reload(busy: Site, browser: BrowserContext) -> None:
    page = browser.pages[0]
    complaints = watched(page)
    log_in(page, busy.url, path="jobs")
    expect(page.locator("main")).to_contain_text("41 tasks in 2 job categories")
    page.evaluate("window.before = true")
    complaints.clear()
    page.wait_for_timeout(1500)  # the stream is open
    busy.observe(a_snapshot(jobs(7, first=7000, owner="cyd")))
    expect(page.locator("main")).to_contain_text("7 tasks in 1 job category", timeout=2000)
    assert page.evaluate("window.before") is True
    assert complaints == []


def test_two_tabs_show_the_same_news_and_a_filter_stays(busy: Site, browser: BrowserContext) -> None:
    first, second = browser.pages[0], browser.new_page()
    log_in(first, busy.url, path="jobs?search=bob")
    second.goto(f"{busy.url}/page/workers")
    first.bring_to_front()
    expect(first.locator("main")).to_contain_text("40 tasks in 1 job category")
    first.wait_for_timeout(1500)
    busy.observe(a_snapshot(jobs(7, first=7000, owner="cyd"), jobs(2, first=8000, owner="bob"), a_worker("w77")))
    expect(first.locator("main")).to_contain_text("2 tasks in 1 job category", timeout=2000)
    expect(second.locator("main")).to_contain_text("w77", timeout=4000)


def test_an_action_asks_first_and_is_shown_everywhere(busy: Site, browser: BrowserContext) -> None:
    page, other = browser.pages[0], browser.new_page()
    log_in(page, busy.url, path="worker?subject=w1")
    other.goto(f"{busy.url}/page/./")
    page.get_by_role("link", name="Drain").click()
    expect(page.locator("h1")).to_have_text("Drain w1?")
    expect(page.locator("main")).to_contain_text("its machine is terminated")
    assert [one.verb for one in busy.store.overrides.in_force()] == [Verb.KEEP]
    page.get_by_role("button", name="Drain w1").click()
    expect(page.get_by_role("status")).to_have_text("w1 will be drained")
    assert ("w1", "root (page)") in [(one.host, one.who) for one in busy.store.overrides.in_force()]
    page.get_by_role("link", name="Actions").first.click()
    page.get_by_role("link", name="Cancel the keep of w3").click()
    page.get_by_role("button", name="Cancel the keep w3").click()
    expect(page.get_by_role("status")).to_have_text("w3 is no longer kept")


def test_a_reader_is_offered_no_action(busy: Site, browser: BrowserContext) -> None:
    page = browser.pages[0]
    log_in(page, busy.url, "ann", path="actions")
    expect(page.locator("main")).to_contain_text("ann may look, but not act")
    assert page.get_by_role("link", name="Pause").count() == 0
    page.goto(f"{busy.url}/page/worker?subject=w1")
    assert page.get_by_role("link", name="Drain").count() == 0


def test_logout_and_an_expired_session(busy: Site, browser: BrowserContext) -> None:
    page = browser.pages[0]
    log_in(page, busy.url, path="jobs")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Log in")
    page.go_back()
    assert "4711" not in page.content()
    log_in(page, busy.url, path="jobs?search=bob")
    page.wait_for_timeout(1500)
    busy.now[0] += LENGTH + 60
    busy.page.feed.publish()
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended", timeout=5000)
    page.get_by_role("link", name="Log in again").click()
    expect(page.get_by_role("status")).to_contain_text("Your session has ended")
    page.get_by_label("User").fill("ann")
    page.get_by_label("Password or token").fill("s3cret/pass:word")
    page.keyboard.press("Enter")
    page.wait_for_url("**/page/jobs?search=bob")


@pytest.mark.parametrize("path", ("./", "jobs", "cost"))
def test_an_open_page_says_within_two_polls_that_the_autoscaler_does_not_answer(
    busy: Site, browser: BrowserContext, path: str
) -> None:
    relay, page = served_apart(busy), browser.pages[0]
    log_in(page, busy.url, path=path)
    page.wait_for_timeout(1500)
    expect(page.locator("#lost")).to_be_hidden()
    relay.silent = "no autoscaler runs on this machine now"
    banner = page.locator("#lost")
    expect(banner).to_contain_text("The autoscaler has not answered since", timeout=20_000)
    expect(banner).to_contain_text("no autoscaler runs on this machine now. What is shown is old")
    busy.page.feed.publish()  # somebody gave a command: the view is loaded again, and refused or of the store
    page.wait_for_timeout(12_000)
    expect(banner).to_be_visible()
    relay.silent = ""
    expect(banner).to_be_hidden(timeout=20_000)
    expect(page.locator("[data-stored]")).to_have_count(0)


def test_that_a_session_has_ended_stays_said(busy: Site, browser: BrowserContext) -> None:
    page = browser.pages[0]
    log_in(page, busy.url)
    page.wait_for_timeout(1500)
    busy.now[0] += LENGTH + 60
    busy.page.feed.publish()
    expect(page.locator("#lost")).to_contain_text("Your session has ended", timeout=5000)
    page.wait_for_timeout(12_000)
    expect(page.locator("#lost")).to_contain_text("Your session has ended")


def test_an_open_page_says_that_the_autoscaler_makes_no_passes(busy: Site, browser: BrowserContext) -> None:
    busy.answers.polling_delay = lambda: 30.0
    page = browser.pages[0]
    log_in(page, busy.url, path="workers")
    busy.loop.quiet_s = 3600.0
    expect(page.locator("#lost")).to_contain_text(
        "The autoscaler makes no passes: no pass has begun or ended since", timeout=20_000
    )
    busy.observe(a_snapshot(a_worker("w1"), now=busy.now[0]))
    expect(page.locator("#lost")).to_be_hidden(timeout=20_000)


def test_without_scripts_all_is_there_as_tables(busy: Site) -> None:
    with a_browser(scripts=False) as browser:
        page = browser.pages[0]
        log_in(page, busy.url)
        expect(page.locator("main")).to_contain_text("Demand and supply")
        page.goto(f"{busy.url}/page/jobs")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("Job number or name, owner or project").fill("bob")
        page.get_by_role("button", name="Search").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        page.goto(f"{busy.url}/page/act?verb=pause")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("main")).to_contain_text("the autoscaler pauses from its next pass on")


def test_a_view_is_used_by_keyboard_alone(busy: Site, browser: BrowserContext) -> None:
    page = browser.pages[0]
    log_in(page, busy.url)
    page.reload()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Workers"
    page.keyboard.press("Enter")
    page.wait_for_url("**/page/workers")
    page.wait_for_load_state()
    outlines = page.evaluate(
        """() => [...document.querySelectorAll('a, button, input')].slice(0, 12).map(each => {
            each.focus({focusVisible: true}); return getComputedStyle(each).outlineStyle; })"""
    )
    assert set(outlines) == {"solid"}


@pytest.mark.parametrize("size", (PHONE, (3840, 2160)), ids=("phone", "4k"))
def test_no_view_is_wider_than_the_window(busy: Site, size: tuple[int, int]) -> None:
    with a_browser(size=size) as browser:
        page = browser.pages[0]
        log_in(page, busy.url)
        for path in VIEWS:
            page.goto(f"{busy.url}/page/{path}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= size[0], path


def test_on_a_phone_a_lane_is_as_wide_as_its_card(busy: Site) -> None:
    with a_browser(size=PHONE) as browser:
        page = browser.pages[0]
        log_in(page, busy.url, path="lanes")
        lane = page.locator(".lane").first.bounding_box()
        assert lane is not None
        assert lane["width"] > 0.8 * PHONE[0]


def test_without_scripts_the_overview_says_where_its_chart_is(busy: Site) -> None:
    said = "The chart needs scripts; the numbers say the same."
    for scripts in (False, True):
        with a_browser(scripts=scripts) as browser:
            page = browser.pages[0]
            log_in(page, busy.url, path="./")
            assert (said in page.locator("main").inner_text()) is not scripts


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_views_meet_wcag_aa_by_axe(busy: Site, scheme: str) -> None:
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    with a_browser(scheme=scheme) as browser:  # type: ignore[arg-type]
        page = browser.pages[0]
        log_in(page, busy.url)
        found = {}
        for path in VIEWS:
            page.goto(f"{busy.url}/page/{path}")
            page.evaluate(AXE.read_text(encoding="utf-8"))
            result = page.evaluate("rules => axe.run(document, {runOnly: rules})", rules)
            for each in result["violations"]:
                found[f"{path} {each['id']}"] = [node["html"][:150] for node in each["nodes"][:3]]
            assert len(result["passes"]) > 10, path
    assert found == {}


# -- text of others ----------------------------------------------------------------------------------------------------

PARTS = (
    *("<", ">", '"', "'", "&", "/", "=", "`", "script", "img src=x onerror=", "svg/onload=", "alert(1)"),
    *(
        "window.hurt=1",
        "javascript:",
        "{{7*7}}",
        "{%",
        "%}",
        "${x}",
        "</td>",
        "</script>",
        "<!--",
        "-->",
        "]]>",
        "&lt;",
    ),
    *("&#x3c;", " hx-get='//x'", " hx-trigger=load", " data-hx-on:click=", "style=", "\u202e", "\x1b[31m", "\x00"),
    *("\r\n", "\u2028", "ünï", "日本", "a"),
)


def hostile(seed: int) -> str:
    chosen = random.Random(seed)
    return f"{seed}" + "".join(chosen.choice(PARTS) for _ in range(chosen.randrange(1, 12)))


def harmless(page: Page) -> list[str]:
    """What of the document is of no template of ours."""
    found: list[str] = page.evaluate(
        """() => {
            const odd = [], tags = new Set((
                'html head meta title link script noscript body a header p strong span nav ul li form button div main '
                + 'h1 h2 dl dt dd section b small details summary table caption thead tbody tr th td time ol input '
                + 'label select option code svg rect article').split(' '));
            const note = each => odd.push(each.outerHTML.slice(0, 200));
            for (const each of document.querySelectorAll('*')) {
                if (each.closest('.chart')) continue;  // uPlot's own
                if (!tags.has(each.localName)) note(each);
                for (const {name} of each.attributes) {
                    if (/^on|^style$|^srcset$|^data-hx/.test(name)) note(each);
                    if (name.startsWith('hx-') && !['view', 'stream'].includes(each.id)) note(each);
                }
                if (each.localName === 'script' && !each.getAttribute('src')?.startsWith('static/')) note(each);
                if (each.href && !each.href.startsWith(location.origin + '/page/')) note(each);
            }
            if (window.hurt !== undefined) odd.push('a script of theirs ran');
            return odd;
        }"""
    )
    return found


def test_ten_thousand_hostile_texts_stay_text_in_every_view(site: Site, browser: BrowserContext) -> None:
    """Owners, projects, requests, hosts, those who act, messages of the cloud. With --thorough: all pages of lists."""
    texts = [hostile(number) for number in range(10_000)]
    waiting = [
        a_job(number + 1, owner=text, project=text, slots=100, hard={text: text}) for number, text in enumerate(texts)
    ]
    workers = [a_worker(f"w{number}{text}") for number, text in enumerate(texts[:200])]
    site.observe(a_snapshot(*waiting, *workers, a_failure(), a_host(f"h{texts[0]}")))
    site.store.usages.begin(
        [
            Run(RunKey("i-w1", number + 1, 0), Payer(text, text, text, text, text, text), 1, NOW - 60)
            for number, text in enumerate(texts)
        ]
    )
    site.store.overrides.ask(Verb.PAUSE, who=texts[1], at=NOW)
    site.store.overrides.ask(Verb.KEEP, who=texts[2], at=NOW, host=texts[3])
    site.now[0] = NOW + 60
    page = browser.pages[0]
    dialogs: list[str] = []

    def refuse(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    log_in(page, site.url)
    seen = 0
    for first in range(0, 10_000, 100 if thorough() else 1700):
        page.goto(f"{site.url}/page/jobs?first={first}")
        rows = page.locator("tbody tr > td:nth-child(2) > a").all_text_contents()
        assert len(rows) == 100
        assert set(rows) <= {" ".join(plain(text).split()) for text in texts} | {plain(text) for text in texts}
        assert harmless(page) == [], first
        seen += len(rows)
    for path in ("./", "workers", "lanes", "decisions", "actions", "cost?by=user", "cost?by=project", "cost?by=account",
                 "cost?by=user&first=9800", "job?subject=17", "worker?subject=i-w1"):  # fmt: skip
        page.goto(f"{site.url}/page/{path}")
        assert harmless(page) == [], path
    for text in texts[:: 100 if thorough() else 1000]:  # as a visitor's own words in a link
        page.goto(f"{site.url}/page/jobs")
        page.get_by_label("Job number or name, owner or project").fill(plain(text)[:100])
        page.get_by_role("button", name="Search").click()
        assert harmless(page) == [], text
    assert dialogs == []
    assert seen == (10_000 if thorough() else 600)
