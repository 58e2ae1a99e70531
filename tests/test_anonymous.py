"""A record with other names decides the same and tells nobody's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autoscaler.core.plan import plan
from autoscaler.engine.anonymous import write_anonymous
from autoscaler.engine.record import read_record
from autoscaler.errors import SettingsError
from tests.test_record import record as recorded

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
SECRET = ("beatrix", "alfonso", "takeover", "treasury", "merger", "bankers", "corp", "node7", "node8", "10.3.4.5")


def record(folder: Path, **changed: str) -> Path:
    """What a cell of a bank would leave."""
    recorded(folder)
    (folder / "qstat.xml").write_text(QSTAT)
    for stem, text in {**QCONF, **changed}.items():
        (folder / "qconf" / f"{stem}.txt").write_text(text)
    provider = (folder / "provider.json").read_text().replace("10.0.0.3", "10.3.4.5")
    (folder / "provider.json").write_text(provider.replace('"w1"', '"node8.corp.example.com"'))
    (folder / "master").write_text("qmaster.corp.example.com\n")
    overrides = json.loads((folder / "wishes.json").read_text()) | {"paused_by": "beatrix", "keep": ["node8"]}
    (folder / "wishes.json").write_text(json.dumps(overrides))
    return folder


def texts(folder: Path) -> str:
    """All that stands in a record, names of its files included."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return "\n".join([*(file.name for file in files), *(file.read_text() for file in files)]).lower()


def test_no_name_is_left_and_what_has_one_name_has_one_afterwards(tmp_path: Path) -> None:
    before = record(tmp_path / "record")
    assert [name for name in SECRET if name not in texts(before)] == []

    write_anonymous(before, tmp_path / "case")

    assert [name for name in SECRET if name in texts(tmp_path / "case")] == []
    cluster = read_record(tmp_path / "case").cluster
    (host,) = cluster.hosts
    assert (host.name, sorted(cluster.execution_hosts)) == ("host-1", ["host-1", "host-2"])
    assert cluster.queues["main.q"].slots_by_host == {"host-1": 2}
    assert list(cluster.access_lists) == ["list-1"]
    assert sorted(cluster.access_lists["list-1"].entries) == ["user-1", "user-3"]  # user-2 is of the requests
    assert [shape.ask.owner for shape in cluster.shapes] == ["user-1"]
    assert read_record(tmp_path / "case").fleet.workers[0].name == "host-2"


@pytest.mark.parametrize("name", ("jobs", "mixed", "states", "empty"))
def test_what_a_real_cell_printed_decides_the_same_under_other_names(name: str, tmp_path: Path) -> None:
    write_anonymous(RECORDED / name, tmp_path / "case")
    before, after = (plan(read_record(folder)) for folder in (RECORDED / name, tmp_path / "case"))
    assert [len(shape.reason.code.value) for shape in after.shapes] == [
        len(shape.reason.code.value) for shape in before.shapes
    ]
    assert re.search(r"\b(w1|ann|/run/)", texts(tmp_path / "case")) is None


def test_a_name_that_means_something_else_as_well_is_refused(tmp_path: Path) -> None:
    before = record(tmp_path / "record", su_bankers="name bankers\ntype ACL\nentries running\n")
    with pytest.raises(SettingsError, match="replace names by hand"):
        write_anonymous(before, tmp_path / "case")
    assert not (tmp_path / "case").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not empty"):
        write_anonymous(record(tmp_path / "record"), tmp_path)


def test_what_callers_rules_and_settings_say_is_not_left_either(tmp_path: Path) -> None:
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
        "arrays": [{"name": "execute", "keep_alive": [["merger-q3", True]], "said_by": [["max_count", "merger-q3"]]}],
    }
    rules = {"apply": [{"project": "syndicate", "user": ["alfonso"], "constraints": {"never": "ask Greta"}}]}
    memory = json.loads((before / "memory.json").read_text()) | {"stopped": {"execute": "Greta pulled it"}}
    provider = json.loads((before / "provider.json").read_text())
    provider["workers"][0]["group_id"] = provider["workers"][0]["placement_group"] = "pg-merger-7"
    settings = (
        'CP_CAP_AUTOSCALE_HEALTH_CHECK = "/opt/bank/check --token hunter2 -v"\n'
        'CP_CAP_AUTOSCALE_TAG = "bank-of-x"\nCP_CAP_AUTOSCALE_HTTP_HOSTS = "grid.bank.example"\n'
    )
    for name, document in {"requests": requests, "rules": rules, "memory": memory, "provider": provider}.items():
        (before / f"{name}.json").write_text(json.dumps(document))
    (before / "settings.toml").write_text((before / "settings.toml").read_text() + settings)
    secret = (*SECRET, "deal room", "greta", "hunter2", "bank", "syndicate")
    assert [name for name in secret if name not in texts(before)] == []

    write_anonymous(before, tmp_path / "case")

    assert [name for name in secret if name in texts(tmp_path / "case")] == []
    made = read_record(tmp_path / "case").requests
    assert [one.name for one in made.sets] == ["set-2", "set-1"] or len({one.name for one in made.sets}) == 2
    assert made.arrays[0].kept_by[0] in {one.name for one in made.sets}
    assert made.arrays[0].said_by == (("max_count", made.arrays[0].kept_by[0]),)
