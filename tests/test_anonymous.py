"""A record under other names leads to the same decisions and has no original name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autoscaler.core.plan import plan
from autoscaler.engine.anonymous import LEFT_OUT, write_anonymous
from autoscaler.engine.record import read_record
from autoscaler.errors import SettingsError
from autoscaler.report.document import document
from tests.cases.whole import whole
from tests.samples import sample
from tests.test_record import record as recorded

CASES = Path(__file__).parent / "cases"
RECORDS = sorted(found.parent for found in CASES.glob("*/*/qstat.xml"))
OF_OWNERS = [
    CASES / "eligibility" / "only-jobs-of-users-on-the-access-list-count",
    CASES / "quarantine" / "one-owners-missing-directories-are-only-reported",
]
RECORDED = Path(__file__).parent / "sge" / "recorded"
QSTAT = """<?xml version='1.0'?>
<job_info>
  <queue_info><Queue-List><name>main.q@Node7.corp.example.com</name><slots_used>2</slots_used><slots_resv>0</slots_resv>
    <slots_total>2</slots_total><job_list state="running"><JB_job_number>11</JB_job_number><JAT_prio>0.5</JAT_prio>
    <JB_name>merger-model</JB_name><JB_owner>beatrix</JB_owner><JB_project>takeover</JB_project>
    <JB_department>treasury</JB_department><state>r</state><JAT_start_time>2026-11-21T09:02:00</JAT_start_time>
    <slots>2</slots><full_job_name>merger-model</full_job_name></job_list></Queue-List></queue_info>
  <job_info><job_list state="pending"><JB_job_number>12</JB_job_number><JAT_prio>0.5</JAT_prio>
    <JB_name>merger-model</JB_name><JB_owner>alfonso</JB_owner><JB_project>takeover</JB_project>
    <state>qw</state><JB_submission_time>2026-11-21T09:04:00</JB_submission_time><slots>1</slots>
    <full_job_name>merger-model</full_job_name></job_list></job_info>
</job_info>
"""
QCONF = {
    "sq_main.q": "qname main.q\nhostlist @allhosts\nslots 2,[node7.corp.example.com=2]\npe_list NONE\n"
    "shell /opt/takeover/bin/sh\nuser_lists bankers\nxprojects NONE\nprojects takeover\nowner_list alfonso\n",
    "shgrp_@allhosts": "group_name @allhosts\nhostlist node7.corp.example.com node8.corp.example.com\n",
    "sel": "node7.corp.example.com\nnode8.corp.example.com\n",
    "su_bankers": "name bankers\ntype ACL\nfshare 0\noticket 0\nentries beatrix,alfonso\n",
    "se_node7.corp.example.com": "hostname node7.corp.example.com\nuser_lists bankers\nxuser_lists NONE\n",
    "srqs": "{\n name r1\n description takeover\n enabled TRUE\n limit users {alfonso} to slots=7\n}\n",
    "sconf": "administrator_mail beatrix@corp.example.com\nmax_unheard 00:05:00\n",
}
SECRET = (
    *("beatrix", "alfonso", "lucrezia", "takeover", "treasury", "merger", "bankers", "corp"),
    *("node7", "node8", "10.3.4.5"),
)


def record(folder: Path, **changed: str) -> Path:
    """A record as the cell of a bank would leave it."""
    recorded(folder)
    (folder / "qstat.xml").write_text(QSTAT)
    for stem, text in {**QCONF, **changed}.items():
        (folder / "qconf" / f"{stem}.txt").write_text(text)
    provider = (folder / "provider.json").read_text().replace("10.0.0.3", "10.3.4.5")
    (folder / "provider.json").write_text(provider.replace('"w1"', '"node8.corp.example.com"'))
    (folder / "master").write_text("qmaster.corp.example.com\n")
    overrides = json.loads((folder / "overrides.json").read_text()) | {"paused_by": "beatrix", "keep": ["node8"]}
    overrides["asked_by"] = {"node8": "lucrezia"}
    (folder / "overrides.json").write_text(json.dumps(overrides))
    return folder


def texts(folder: Path) -> str:
    """All text of a record, names of its files included."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return "\n".join([*(file.name for file in files), *(file.read_text() for file in files)]).lower()


def test_an_anonymous_record_has_no_old_name_and_one_new_name_for_each(tmp_path: Path) -> None:
    before = record(tmp_path / "record")
    assert [name for name in SECRET if name not in texts(before)] == []

    write_anonymous(before, tmp_path / "case")

    assert [name for name in SECRET if name in texts(tmp_path / "case")] == []
    cluster = read_record(tmp_path / "case").cluster
    (host,) = cluster.hosts
    assert (host.name, sorted(cluster.execution_hosts)) == ("host-1", ["host-1", "host-2"])
    assert cluster.queues["main.q"].slots_by_host == {"host-1": 2}
    assert list(cluster.access_lists) == ["list-1"]
    assert sorted(cluster.access_lists["list-1"].entries) == ["user-1", "user-3"]  # user-2 is in the requests
    assert [category.ask.owner for category in cluster.job_categories] == ["user-1"]
    assert read_record(tmp_path / "case").fleet.workers[0].name == "host-2"


def test_a_list_and_a_host_that_only_a_file_is_named_after_are_renamed(tmp_path: Path) -> None:
    more = {"su_lenders": "name lenders\ntype ACL\n", "se_vault.corp.example.com": "hostname vault.corp.example.com\n"}
    before = record(tmp_path / "record", **more)

    write_anonymous(before, tmp_path / "case")

    assert [name for name in ("lenders", "vault") if name in texts(tmp_path / "case")] == []


@pytest.mark.parametrize("name", ("jobs", "mixed", "states", "empty"))
def test_recorded_cells_decide_the_same_under_other_names(name: str, tmp_path: Path) -> None:
    write_anonymous(RECORDED / name, tmp_path / "case")
    before, after = (plan(read_record(folder)) for folder in (RECORDED / name, tmp_path / "case"))
    assert [len(category.reason.code.value) for category in after.job_categories] == [
        len(category.reason.code.value) for category in before.job_categories
    ]
    assert re.search(r"\b(w1|ann|/run/)", texts(tmp_path / "case")) is None


OF_OTHERS = {
    "qconf/sq_main.q.txt": (QCONF["sq_main.q"], QCONF["sq_main.q"].replace("slots 2,", "slots 2,[vanished=1],")),
    "qconf/shgrp_@allhosts.txt": (
        QCONF["shgrp_@allhosts"],
        QCONF["shgrp_@allhosts"].replace("\n", " departed.hq.local other-dept.example.net\n", 1) + "hostlist strange\n",
    ),
    "qconf/sconf.txt": (QCONF["sconf"], QCONF["sconf"] + "login_command /x fd00:1:2::3 1::8:feed licences.hq.local\n"),
}
DETAIL = """<detailed_job_info><djob_info><element><JB_job_number>12</JB_job_number>
  <JB_group>florence</JB_group>
  <JB_context><context_list><VA_variable>dealname</VA_variable><VA_value>bluebird &amp; sons</VA_value></context_list>
  <context_list><VA_variable>tier</VA_variable><VA_value>gold-wharf</VA_value></context_list></JB_context>
  <MR_host>desk17</MR_host></element></djob_info>
  <messages><element><QIM_message>error: can't chdir for zebedee</QIM_message></element>
  <element><MES_message>cannot run on host fd00:1:2::3 of dougal</MES_message></element></messages></detailed_job_info>
"""
PENDING = """<JB_owner>alfonso</JB_owner><hard_request name="hostname">laptop99</hard_request>
  <hard_req_queue>main.q@cellar5</hard_req_queue><predecessor_jobs_req>ermintrude</predecessor_jobs_req>"""
GROUP = "name bankers\ntype ACL\nentries beatrix,alfonso,@florence\n"
WORDS = (
    "florence",
    *("dealname", "bluebird", "sons", "wharf", "desk17", "zebedee", "dougal", "laptop99", "cellar5", "ermintrude"),
    *("vanished", "departed", "other-dept", "hq.local", "strange", "fd00:1:2", "feed", "licences"),
)


def test_an_anonymous_record_has_no_job_text_no_unknown_host_and_no_address(tmp_path: Path) -> None:
    before = record(tmp_path / "record")
    for name, (was, now) in OF_OTHERS.items():
        assert (before / name).read_text() == was
        (before / name).write_text(now)
    (before / "qconf" / "su_bankers.txt").write_text(GROUP)
    (before / "qstat-j.xml").write_text(DETAIL)
    (before / "qstat.xml").write_text(QSTAT.replace("<JB_owner>alfonso</JB_owner>", PENDING))
    rules = [{"context": {"tier": "gold-*", "dealname": "bluebird & sons"}, "constraints": [{"exclusive": True}]}]
    (before / "rules.json").write_text(json.dumps({"apply": rules}))
    detail = {"job": 12, "read_at": 1.0, "context": {"dealname": "bluebird & sons", "tier": "gold-wharf"}}
    memory = json.loads((before / "memory.json").read_text()) | {"details": {"12": detail}}
    (before / "memory.json").write_text(json.dumps(memory))
    assert [word for word in (*SECRET, *WORDS) if word not in texts(before)] == []

    write_anonymous(before, tmp_path / "case")

    assert [word for word in (*SECRET, *WORDS) if word in texts(tmp_path / "case")] == []
    made = read_record(tmp_path / "case")
    assert made.policy.rules is not None
    (result,) = made.memory.details.values()
    assert made.policy.rules.apply[0].who.is_of_context(result.context)
    assert_same_but_for_names(before, tmp_path / "case")


PATTERN_DECIDES = {"a-host-pattern-is-compared-with-names-such-as-workers-have"}
"""Cases in which a pattern of hosts decides about workers still to come: no invented names decide the same."""


COMPARED = [folder for folder in RECORDS if folder.name not in PATTERN_DECIDES]


@pytest.mark.parametrize("name", sorted(PATTERN_DECIDES))
def test_a_record_in_which_a_pattern_decides_on_workers_to_come_is_not_written(name: str, tmp_path: Path) -> None:
    (folder,) = (folder for folder in RECORDS if folder.name == name)
    before = whole(f"{folder.parent.name}/{folder.name}")
    with pytest.raises(SettingsError, match="would decide otherwise"):
        write_anonymous(before, tmp_path / "case")
    assert not (tmp_path / "case").exists()


@pytest.mark.parametrize(
    "folder",
    sample(COMPARED, *COMPARED[::6], *OF_OWNERS),
    ids=lambda folder: f"{folder.parent.name}/{folder.name}",
)
def test_the_plan_of_an_anonymous_record_differs_only_in_names(folder: Path, tmp_path: Path) -> None:
    before = whole(f"{folder.parent.name}/{folder.name}")
    write_anonymous(before, tmp_path / "case")
    assert_same_but_for_names(before, tmp_path / "case")


def assert_same_but_for_names(before: Path, after: Path) -> None:
    """Each name has one new name, no two share one, and all else is equal and in the same order."""
    renamed: dict[str, str] = {}
    one, other = (_plan_document(folder) for folder in (before, after))
    _compare(one, other, "", renamed)
    assert len(set(renamed.values())) == len(renamed), renamed


OF_FORM = (
    r"HOST_LEFT|FOREIGN_HOST",
    r"its host has left|foreign host",
    r"it requests [^\x22]*, a name of workers that no host has: that worker has left",
    r"it requests a host that the autoscaler does not manage \([^)]*\)",
    r"A new worker need not get this name:[^\x22]*|It starts only on such a host[^\x22]*",
)
"""Texts of two reasons that only the form of a host's name tells apart."""


def _plan_document(folder: Path) -> object:
    snapshot = read_record(folder)
    text = json.dumps(document(snapshot, plan(snapshot), {}, by_job=True))
    for pattern in OF_FORM:
        text = re.sub(pattern, "by the form of a name", text)
    return json.loads(text)


def _compare(one: object, other: object, place: str, renamed: dict[str, str]) -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        _compare(list(one), list(other), f"{place}.keys", renamed)
        for (name, left), right in zip(one.items(), other.values(), strict=True):
            _compare(left, right, f"{place}.{name}", renamed)
    elif isinstance(one, list) and isinstance(other, list):
        assert len(one) == len(other), place
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            _compare(left, right, f"{place}[{number}]", renamed)
    elif isinstance(other, str) and LEFT_OUT in other:
        assert isinstance(one, str), place  # a sentence of its own, which only has to be there
    elif isinstance(one, str) and isinstance(other, str):
        left_words, right_words = (re.findall(r"[\w.+-]+|[^\w.+-]+", text) for text in (one, other))
        assert len(left_words) == len(right_words), (place, one, other)
        for left, right in zip(left_words, right_words, strict=True):
            assert renamed.setdefault(left, right) == right, (place, one, other)
    else:
        assert one == other, place


def test_a_name_that_is_also_a_keyword_is_refused(tmp_path: Path) -> None:
    before = record(tmp_path / "record", su_bankers="name bankers\ntype ACL\nentries running\n")
    with pytest.raises(SettingsError, match="replace names by hand"):
        write_anonymous(before, tmp_path / "case")
    assert not (tmp_path / "case").exists()


PATTERNS = """
  <hard_request name="h" resource_contribution="0.0">!(node7*|bluebird-*)&amp;node?.corp.example.com</hard_request>
  <hard_req_queue>main.q@node*.corp.example.com,main.q@@allhosts</hard_req_queue></job_list>"""


def test_patterns_of_hosts_and_names_are_replaced_by_what_they_match(tmp_path: Path) -> None:
    quota = "{\n name r\n enabled TRUE\n limit users {alf*} hosts node* to slots=7\n}\n"
    before = record(tmp_path / "record", srqs=quota)
    text = (before / "qstat.xml").read_text()
    (before / "qstat.xml").write_text(text.replace("</job_list>", PATTERNS))
    rules = [{"user": "alf*", "constraints": [{"exclusive": True}]}]
    (before / "rules.json").write_text(json.dumps({"apply": rules}))

    write_anonymous(before, tmp_path / "case")

    case = texts(tmp_path / "case")
    assert [word for word in ("node*", "node?", "node7", "alf", "bluebird", "corp") if word in case] == []
    case = re.sub(r"pattern-\d+-\*", "other", case)
    assert "!((host-1|other)|other)&amp;(host-1|host-2|other)<" in case
    assert "main.q@host-1,main.q@host-2,main.q@other,main.q@@allhosts<" in case
    assert "users {user-1,other} hosts host-1,host-2,other" in case
    assert_same_verdicts(before, tmp_path / "case")


def assert_same_verdicts(before: Path, after: Path) -> None:
    one, other = (plan(read_record(folder)).job_categories for folder in (before, after))
    assert [verdict.reason.code for verdict in one] == [verdict.reason.code for verdict in other]


def test_a_record_that_others_made_loses_what_is_not_read(tmp_path: Path) -> None:
    before = record(tmp_path / "record")
    told = "<JB_submission_command_line>qsub -v PW=hunter22 ./load</JB_submission_command_line>"
    text = f"<detailed_job_info><djob_info><element><JB_job_number>12</JB_job_number>{told}</element></djob_info>"
    (before / "qstat-j.xml").write_text(text + "</detailed_job_info>")
    write_anonymous(before, tmp_path / "case")
    assert "hunter22" not in texts(tmp_path / "case")
    assert "<jb_job_number>12<" in texts(tmp_path / "case")


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not empty"):
        write_anonymous(record(tmp_path / "record"), tmp_path)


def test_an_anonymous_record_has_no_names_of_requests_rules_and_settings(tmp_path: Path) -> None:
    before = record(tmp_path / "record")
    requests = {
        "sets": [
            {
                "name": "merger-q3",
                "by": "beatrix (REST)",
                "at": "2026-11-21T09:09:00",
                "expires_at": None,
                "targets": [],
                "arrays": ["execute"],
            },
            {
                "name": "deal room 4",
                "by": "token:takeover-ci",
                "at": "2026-11-21T09:09:00",
                "expires_at": None,
                "targets": [],
                "arrays": [],
            },
        ],
        "arrays": [
            {"name": "execute", "keep_alive": [["merger-q3", True]], "defined_by": [["max_count", "merger-q3"]]}
        ],
    }
    rules = {"apply": [{"project": "syndicate", "user": ["alfonso"], "constraints": {"never": "ask Greta"}}]}
    memory = json.loads((before / "memory.json").read_text()) | {"stopped": {"execute": "Greta pulled it"}}
    provider = json.loads((before / "provider.json").read_text())
    provider["workers"][0]["group_id"] = provider["workers"][0]["placement_group"] = "pg-merger-7"
    settings = (
        'CP_CAP_AUTOSCALE_HEALTH_CHECK = "/opt/bank/check --token hunter2 -v"\n'
        'CP_CAP_AUTOSCALE_TAG = "bank-of-x"\nCP_CAP_AUTOSCALE_HTTP_HOSTS = "grid.bank.example"\n'
    )
    for name, content in {"requests": requests, "rules": rules, "memory": memory, "provider": provider}.items():
        (before / f"{name}.json").write_text(json.dumps(content))
    (before / "settings.toml").write_text((before / "settings.toml").read_text() + settings)
    secret = (*SECRET, "deal room", "greta", "hunter2", "bank", "syndicate")
    assert [name for name in secret if name not in texts(before)] == []

    write_anonymous(before, tmp_path / "case")

    assert [name for name in secret if name in texts(tmp_path / "case")] == []
    made = read_record(tmp_path / "case").requests
    assert [one.name for one in made.sets] == ["set-2", "set-1"] or len({one.name for one in made.sets}) == 2
    assert made.arrays[0].kept_by[0] in {one.name for one in made.sets}
    assert made.arrays[0].defined_by == (("max_count", made.arrays[0].kept_by[0]),)


def test_budget_owners_are_renamed_and_their_budgets_stay_spent(tmp_path: Path) -> None:
    before = record(tmp_path / "record")
    with (before / "settings.toml").open("a") as settings:
        settings.write('CP_CAP_AUTOSCALE_BUDGETS = "user:alfonso=10, user:quentin=10, project:takeover=10"\n')
        settings.write('CP_CAP_AUTOSCALE_BUDGET_ACTION = "stop"\n')
    spent = {"the cell": 40.0, "user alfonso": 11.0, "user quentin": 12.0, "project takeover": 9.0}
    (before / "spending.json").write_text(json.dumps({"spent": spent, "ends_at": 1796083200.0}))

    write_anonymous(before, tmp_path / "case")

    assert [name for name in (*SECRET, "quentin") if name in texts(tmp_path / "case")] == []
    after = read_record(tmp_path / "case")
    assert sorted(after.spending.spent.values()) == [9.0, 11.0, 12.0, 40.0]
    assert {budget.owner for budget in after.policy.budgets} == after.spending.spent.keys() - {"the cell"}
