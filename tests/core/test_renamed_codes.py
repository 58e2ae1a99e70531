"""Codes of earlier versions read as the present ones, and nothing else does."""

from __future__ import annotations

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.core.model.renamed_codes import RENAMED


@pytest.mark.parametrize(("old", "new"), sorted(RENAMED.items()))
def test_a_renamed_code_reads_as_its_new_one(old: str, new: str) -> None:
    assert Code(old).value == new


def test_no_present_code_is_also_an_old_one() -> None:
    assert {code.value for code in Code} & set(RENAMED) == set()


def test_a_code_that_no_version_had_is_refused() -> None:
    with pytest.raises(ValueError, match="BUCKET_SLEEPING"):
        Code("BUCKET_SLEEPING")
