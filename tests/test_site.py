"""The site: its drawings are as the code is, and what is laid out for Sphinx leads where the pages lead."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from installers.site import drawings, manual_pages
from installers.site.__main__ import _menu, lay_out
from installers.site.spelling import unknown

ROOT = Path(__file__).parents[1]


class Dictionary:
    def lookup(self, word: str) -> bool:
        return word in {"the", "organize", "worker", "color"}


def test_every_drawing_is_as_the_code_is() -> None:
    assert sorted(path.name for path in drawings.stale()) == []


@pytest.mark.parametrize("name", sorted(drawings.drawings()))
def test_a_drawing_is_well_formed_and_no_word_of_it_is_cut_off(name: str) -> None:
    picture = ET.parse(ROOT / "docs" / "drawings" / name).getroot()
    _, _, width, height = (float(each) for each in picture.attrib["viewBox"].split())
    words = [text for text in picture.iter("{http://www.w3.org/2000/svg}text") if text.text]
    assert len(words) > 5
    for text in words:
        assert float(text.attrib["y"]) < height
        if "text-anchor" not in text.attrib:
            assert float(text.attrib["x"]) + 6.5 * len(text.text or "") < width, text.text


def test_no_label_of_the_phases_covers_another() -> None:
    picture = ET.parse(ROOT / "docs" / "drawings" / "phases.svg").getroot()
    labels = [text for text in picture.iter("{http://www.w3.org/2000/svg}text") if "paint-order" in text.attrib]
    places = [(float(each.attrib["x"]), float(each.attrib["y"]), 7 * len(each.text or "")) for each in labels]
    assert len(places) > 8
    for at, (x, y, width) in enumerate(places):
        over = [(a, b) for a, b, w in places[at + 1 :] if abs(b - y) < 14 and a < x + width and x < a + w]
        assert over == []


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site")
    lay_out(to)
    return to


def test_every_page_is_in_the_menu(source: Path) -> None:
    text = (source / "docs" / "index.md").read_text("utf-8")
    trees = "".join(re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL))
    listed = {(source / "docs" / f"{line}.md").resolve() for line in trees.splitlines() if line and line[0] != ":"}
    pages = {path.resolve() for path in (source / "docs").rglob("*.md") if "decisions" not in path.parts}
    assert {str(path) for path in pages - listed} == {str(source / "docs" / "index.md")}


def test_what_a_page_links_to_is_beside_it(source: Path) -> None:
    assert (source / "conf" / "aws" / "policy.json").exists()
    assert "](../../conf/sge)" not in (source / "docs" / "operate" / "automate.md").read_text("utf-8")


def test_the_reference_has_every_command_and_every_call(source: Path) -> None:
    assert "## serve token revoke" in (source / "docs/reference/commands.md").read_text("utf-8")
    assert "## POST /clusters/{cluster}/nodes/create" in (source / "docs/reference/rest.md").read_text("utf-8")
    assert "def launch(" in (source / "docs/reference/python.md").read_text("utf-8")


def test_a_section_of_the_index_is_a_section_of_the_menu() -> None:
    (first, _) = _menu("# Title\n\n## Learn\n\n- [a](a.md), [b](b.md#part), [a](a.md), [c](https://c.example)\n")
    assert first.split() == ["```{toctree}", ":hidden:", ":caption:", "Learn", "a", "b", "```"]


def test_a_misspelt_word_is_found_and_code_is_not_read() -> None:
    text = "The wroker, `qsubb` and organise colour.\n\n```sh\nxyzzy\n```\n\n[worker](wroker.md) <!-- wrok -->\n"
    assert list(unknown(text, frozenset(), Dictionary())) == ["and", "wroker"]
    assert list(unknown(text, frozenset({"and", "wroker"}), Dictionary())) == []


def test_manual_pages_are_made_of_the_pages_and_lead_to_each_other(tmp_path: Path) -> None:
    manual_pages.lay_out(tmp_path)
    pages = manual_pages.manual_pages()
    assert {path.name for path in (ROOT / "docs" / "operate").glob("*.md")} <= {path.name for path in pages.values()}
    assert {path.stem for path in tmp_path.glob("*.md")} == set(pages)
    night = (tmp_path / "sge-autoscaler-at-night.md").read_text("utf-8")
    assert "sge-autoscaler-reasons(7)" in night
    for path in tmp_path.glob("*.md"):
        outside = "".join(re.split(r"^ *```.*?^ *```", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL))
        assert [link for link in re.findall(r"\]\(([^)]*)\)", outside) if "://" not in link] == [], path.name
        assert set(re.findall(r"(sge-autoscaler-[a-z-]+)\(7\)", outside)) <= set(pages)


def test_a_link_of_a_manual_page_is_words_where_no_manual_page_is_meant(tmp_path: Path) -> None:
    (page := tmp_path / "a.md").write_text(
        "# A\n\n![x](x.png) [own part](#b), [rules](rules.md#c), [rules.md](rules.md), [code](../a.py), [w](https://w.example)\n"
    )
    assert manual_pages._text(page, {tmp_path / "rules.md": "x-rules"}).splitlines()[2] == (
        " own part, rules (see x-rules(7)), x-rules(7), code, [w](https://w.example)"
    )


def test_a_table_is_a_list_in_a_manual_page(tmp_path: Path) -> None:
    (page := tmp_path / "a.md").write_text(
        "# A\n\n| name | kind |\n|---|---|\n| `a` | b \\| c |\n\n"
        "| x | y | |\n|---|---|---|\n| 1 | 2 | 3 |\n|  | 4 |  |\n"
    )
    assert manual_pages._text(page, {}).splitlines()[2:] == [
        *("- **`a`**: b \\| c", ""),
        *("- **1**: y: 2; 3", "- y: 4"),
    ]


def test_a_long_name_may_be_divided_in_a_manual_page_and_a_short_one_stays() -> None:
    long = "\\fBtests/properties/test_rules.py::test_a_rule_with_a_long_name\\fP"
    found = manual_pages._TOO_LONG.sub(manual_pages._breakable, f"by {long} and qstat/x_y")
    assert found.replace("\\:", "") == f"by {long} and qstat/x_y"
    assert "tests/\\:properties/\\:test_\\:rules" in found
    assert found.endswith(" and qstat/x_y")
