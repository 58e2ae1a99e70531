"""Who sees the page: logins, sessions and their ends, roles, and users whom a proxy names."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.api import tokens
from autoscaler.api.passwords import set_password
from autoscaler.api.principal import Role
from autoscaler.store.sessions import LENGTH
from tests.core.building import a_job, a_snapshot
from tests.page.shown import PASSWORD, Browser, Site, a_site

VIEWS = ("", "jobs", "workers", "lanes", "decisions", "cost", "cost.csv", "actions", "job?subject=4711")


@pytest.mark.parametrize("path", VIEWS)
def test_a_stranger_gets_the_login_and_nothing_of_the_cell(site: Site, path: str) -> None:
    site.observe(a_snapshot(a_job(4711, owner="zacharias")))
    answer = Browser(site.url).get(path)
    assert answer.status_code == 401
    assert "Log in" in answer.text
    assert "zacharias" not in answer.text


def test_a_login_leads_back_to_the_view_that_was_asked_for(site: Site) -> None:
    browser = Browser(site.url)
    asked = browser.get("jobs?search=ann&zone=UTC").text
    assert 'name="next" value="jobs?search=ann&amp;zone=UTC"' in asked
    answer = browser.log_in("ann", next="jobs?search=ann&zone=UTC")
    assert (answer.status_code, answer.headers["Location"]) == (303, "jobs?search=ann&zone=UTC")
    site.observe(a_snapshot(a_job(4711, owner="ann")))
    assert "4711" in browser.text("jobs")


@pytest.mark.parametrize(
    "target", ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "../clusters", "\n")
)
def test_a_login_leads_to_no_other_site(site: Site, target: str) -> None:
    assert Browser(site.url).log_in("ann", next=target).headers["Location"] == "./"


def test_a_cookie_is_not_for_scripts_nor_other_sites(site: Site) -> None:
    cookie = Browser(site.url).log_in("ann").headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "path" not in cookie.lower()  # the browser takes the page's own, also below a proxy's path


def test_over_tls_the_cookie_is_secure_and_none_of_a_port_in_the_clear_counts(tmp_path: Path) -> None:
    with a_site(tmp_path, proxies=("127.0.0.1",)) as site:  # a proxy that ends TLS
        tls = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        form = {"user": "ann", "password": PASSWORD}
        set_cookie = Browser(site.url).post("login", form, **tls).headers["Set-Cookie"]
        name, _, value = set_cookie.partition(";")[0].partition("=")
        assert name.startswith("__Secure-")
        assert {"Secure", "HttpOnly", "SameSite=lax"} <= {part.strip() for part in set_cookie.split(";")}
        given = [f"{name}={value}", f"{name.removeprefix('__Secure-')}={value}"]
        statuses = [Browser(site.url).get(headers={**tls, "Cookie": each}).status_code for each in given]
        assert statuses == [200, 401]


@pytest.mark.parametrize("headers", ({"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": ""}))
def test_a_page_at_another_port_of_the_host_cannot_act_with_the_cookie_that_it_is_sent_with(
    site: Site, headers: dict[str, str]
) -> None:
    browser = site.browser("root")
    other = {"Origin": "http://127.0.0.1:1", **headers}
    assert browser.post("act", {"verb": "pause"}, **other).status_code == 403
    assert not site.store.overrides.load().paused


def test_a_wrong_password_is_refused_without_saying_which_part_is_wrong(site: Site) -> None:
    answers = [Browser(site.url).log_in(name, "wrong") for name in ("ann", "nobody")]
    assert [answer.status_code for answer in answers] == [401, 401]
    assert all("user or password is wrong" in answer.text for answer in answers)
    assert all("Set-Cookie" not in answer.headers for answer in answers)


def test_wrong_passwords_are_limited_as_those_of_the_api(site: Site) -> None:
    statuses = [Browser(site.url).log_in("ann", f"wrong {number}").status_code for number in range(25)]
    assert statuses[-1] == 429


def test_a_token_logs_in_with_its_role(site: Site) -> None:
    made = tokens.create(site.folder / "tokens", "wall", Role.READER, 2_000_000_000.0)
    browser = Browser(site.url)
    assert browser.log_in("", made).status_code == 303
    assert "token:wall" in browser.text()
    tokens.revoke(site.folder / "tokens", "wall")
    assert browser.get().status_code == 401


def test_a_logout_ends_the_session_also_for_who_kept_the_cookie(site: Site) -> None:
    browser = site.browser("ann")
    kept = dict(browser.session.cookies)
    assert browser.post("logout").status_code == 303
    assert browser.get().status_code == 401
    assert browser.session.get(f"{site.url}/page/", cookies=kept, timeout=60).status_code == 401


def test_a_session_ends_with_its_time_and_the_login_says_so(site: Site) -> None:
    browser = site.browser("ann")
    site.now[0] += LENGTH + 1
    answer = browser.get()
    assert (answer.status_code, "Your session has ended" in answer.text) == (401, True)


def test_a_new_password_ends_the_sessions_of_the_old_one(site: Site) -> None:
    browser, other = site.browser("ann"), site.browser("bob")
    set_password(site.folder / "passwords", "ann", "another")
    assert (browser.get().status_code, other.get().status_code) == (401, 200)


def test_sessions_outlive_the_service(tmp_path: Path) -> None:
    with a_site(tmp_path) as first:
        browser = first.browser("ann")
    kept = dict(browser.session.cookies.items())
    before = (tmp_path / "passwords").read_text()
    with a_site(tmp_path) as second:
        (tmp_path / "passwords").write_text(before)  # `a_site` salts anew
        answer = Browser(second.url).get(cookies=kept)
    assert answer.status_code == 200


def test_a_cookie_opens_the_page_only_and_not_the_api(site: Site) -> None:
    browser = site.browser("root")
    assert browser.session.get(f"{site.url}/answers/v1/status", timeout=60).status_code == 401


@pytest.mark.parametrize("headers", ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}))
def test_another_site_can_neither_log_in_nor_out(site: Site, headers: dict[str, str]) -> None:
    browser = site.browser("ann")
    assert browser.post("logout", {}, **headers).status_code == 403
    assert browser.post("login", {"user": "ann", "password": PASSWORD}, **headers).status_code == 403
    assert browser.get().status_code == 200


def test_a_link_of_another_site_opens_a_view(site: Site) -> None:
    site.observe(a_snapshot())
    opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    browser = site.browser("ann")
    assert browser.get("jobs", headers={**opened, "Referer": "https://wiki.example/"}).status_code == 200
    assert browser.get("jobs", headers={**opened, "Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert browser.session.get(f"{site.url}/clusters/p1/status", headers=opened, timeout=60).status_code == 403


def test_what_people_look_at_does_not_push_out_the_journal_of_calls(site: Site) -> None:
    site.observe(a_snapshot())
    browser = site.browser("ann")
    for path in VIEWS:
        browser.get(path)
    assert [(call.who, call.method, call.target) for call in site.calls.newest()] == [("ann", "POST", "/page/login")]


# -- a proxy that has logged in its users ------------------------------------------------------------------------------

HEADER = "X-Forwarded-User"


def test_a_trusted_proxy_names_the_user(tmp_path: Path) -> None:
    with a_site(tmp_path, header=HEADER, proxies=("127.0.0.1",)) as site:
        site.observe(a_snapshot(a_job(4711, owner="ann")))
        answer = Browser(site.url).get("jobs", headers={HEADER: "ann", "X-Forwarded-For": "192.0.2.7"})
        assert (answer.status_code, "4711" in answer.text) == (200, True)
        assert "Log out" not in answer.text


def test_the_header_of_anybody_else_counts_for_nothing(tmp_path: Path) -> None:
    with a_site(tmp_path, header=HEADER, proxies=("192.0.2.1",)) as site:
        assert Browser(site.url).get(headers={HEADER: "root"}).status_code == 401
    (tmp_path / "b").mkdir()
    with a_site(tmp_path / "b", proxies=("127.0.0.1",)) as site:  # the setting names no header
        assert Browser(site.url).get(headers={HEADER: "root"}).status_code == 401


@pytest.mark.parametrize("name", ("token:wall", "", "ann\x7f", "x" * 2000))
def test_a_proxys_odd_name_is_nobody(tmp_path: Path, name: str) -> None:
    with a_site(tmp_path, header=HEADER, proxies=("127.0.0.1",)) as site:
        assert Browser(site.url).get(headers={HEADER: name}).status_code == 401


def test_a_page_behind_a_proxy_with_another_host_name_takes_forms_that_its_browser_vouches_for(tmp_path: Path) -> None:
    """The proxy's name is one of `CP_CAP_AUTOSCALE_HTTP_HOSTS`; here, this machine's own."""
    with a_site(tmp_path) as site:
        form = {"user": "ann", "password": PASSWORD}
        answer = Browser(site.url).post("login", form, Origin="https://localhost")
        assert answer.status_code == 303
        assert (
            Browser(site.url)
            .post("login", form, Origin="https://localhost", **{"Sec-Fetch-Site": "same-site"})
            .status_code
            == 403
        )
