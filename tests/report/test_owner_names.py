"""No sentence of a reason names its owner to another user if job details are their owners'."""

from __future__ import annotations

import pytest

from autoscaler.core.model.reasons import Code, Fact, Reason, because
from autoscaler.report.document import reason_part
from autoscaler.report.owner_names import without_owners
from autoscaler.report.owners import of_owner
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.wording import facts_of, filled
from autoscaler.sge.detail_lookups import DetailLookups
from tests.sge.test_long_requests import LONG, Details, Master, of

TEMPLATES = sorted(
    {words for row in REASONS.values() for words in (row.sentence, row.short or "") if "{owner}" in words}
)


def sentences(template: str, owner: str) -> list[str]:
    """With one and several of what is counted, with and without optional facts."""
    required, optional = facts_of(template)
    found = []
    for number in (1, 7):
        for names in (required | {"owner"}, required | optional):
            facts: dict[str, Fact] = dict.fromkeys(names, number)
            found.append(filled(template, facts | {"owner": owner}))
    return [words for words in found if owner in words]


@pytest.mark.parametrize(
    ("template", "owner", "hidden"),
    [
        (template, owner, hidden)
        for template in TEMPLATES
        for owner, hidden in (("cy", "one owner"), ("user cy", "a user"), ("project cy d", "a project"))
        if owner == "cy" or "budget of {owner}" in template
    ],
)
def test_no_sentence_names_its_owner_to_others(template: str, owner: str, hidden: str) -> None:
    found = sentences(template, owner)
    assert found
    for words in found:
        whole = f"pass 8: nothing to do: w2: broken; {words}; 3 jobs wait"
        assert without_owners(whole) == whole.replace(owner, hidden)
        assert without_owners(whole, {owner}) == whole


def test_a_reason_of_a_limit_keeps_neither_the_owner_in_its_facts_nor_in_its_text() -> None:
    limit = because(Code.UNSATISFIABLE_OWNER_LIMIT, owner="cy", most=1, window_s=600)
    found = of_owner({"reason": reason_part(Reason(Code.SUSPECT, (), (limit,)))}, "ann")["reason"]
    assert "cy" not in str(found)
    assert of_owner(reason_part(limit), "cy")["facts"]["owner"] == "cy"


def test_the_budget_of_the_cell_is_named_to_all() -> None:
    words = filled(
        REASONS[Code.BUDGET_LEVEL].sentence, {"owner": "the cell", "level": 80, "budget": 5, "currency": "EUR"}
    )
    assert without_owners(words) == words


def test_whose_jobs_take_long_to_read_is_hidden() -> None:
    listing = Master({"ann": [of("ann", 1)], "eve": [of("eve", 2, LONG)], "mal": [of("mal", 3, LONG)]})
    shared = listing.listing()
    shared.read(listing, 30.0)
    details = Details({7: 9.0})
    lookups = DetailLookups(lambda: details.now)
    lookups.read(details, (7,), {7: "eve"}, 30.0)
    for trouble in (shared.trouble, lookups.trouble):
        assert " eve" in trouble
        assert "jobs of some owners are" in without_owners(trouble)
        assert " eve " not in without_owners(trouble)
