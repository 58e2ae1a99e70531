"""What `explain` reports about rules: which entries hold for a job, and which types and hosts meet them."""

from __future__ import annotations

from autoscaler.core.model.cluster import Queue
from autoscaler.core.outcome.constraint_verdicts import rules_for_job
from tests.core.building import LARGE, MAIN, XLARGE, a_bucket, a_host, a_job, a_snapshot
from tests.core.test_rules_in_plans import ONLY_XLARGE, applied, ruled

OTHER = {"main.q": MAIN, "other.q": Queue("other.q", ("@allhosts",), 1)}
HYBRID = {"hybrid": True, "family": "m5"}


def test_an_entry_is_checked_against_every_type_and_the_hosts_of_the_jobs_queues() -> None:
    hosts = a_host("h1"), a_host("h2", queue="other.q")
    buckets = a_bucket(LARGE), a_bucket(XLARGE)
    snapshot = ruled(
        applied([ONLY_XLARGE], queue="main.q"), a_job(queues=("main.q",)), *hosts, *buckets, queues=OTHER, **HYBRID
    )
    (verdict,) = rules_for_job(snapshot, 1)
    assert [(one.node, one.refusal is None) for one in verdict.looked] == [
        ("execute/m5.large (on_demand)", False),
        ("execute/m5.xlarge (on_demand)", True),
        ("h1", False),
    ]


def test_no_rule_applies_to_a_job_that_does_not_wait_or_without_rules() -> None:
    assert rules_for_job(ruled(applied([ONLY_XLARGE], queue="main.q"), a_job()), 2) == ()
    assert rules_for_job(a_snapshot(a_job()), 1) == ()
