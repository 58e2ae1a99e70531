"""`config import`: what becomes of an autoscale.json of cyclecloud-scalelib, and which notes it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autoscaler.commands.main import main
from autoscaler.constraints.rules import load_rules
from autoscaler.core.constraints.default_resources import OfNode, OfResource, Operator
from autoscaler.errors import SettingsError
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.registry import known_prefixes
from autoscaler.providers.settings import read_settings
from autoscaler.settings import load_settings

SECRETS = ("hunter2!", "t0ken-of-somebody")
DOCUMENT: dict[str, Any] = {
    "_comment": "made by hand",
    "cluster_name": 'hpc "one"',
    "username": "scaler",
    "password": SECRETS[0],
    "url": "https://cyclecloud.example.org:9444",
    "verify_certificates": False,
    "logging": {"config_file": "/opt/cycle/logging.conf"},
    "lock_file": None,
    "api_token": SECRETS[1],
    "boot_timeout": "3600",
    "idle_timeout": {"default": 600, "hpc": 60, "gone": 90},
    "default_resources": [
        {"select": {}, "name": "slots", "value": "node.vcpu_count"},
        {"select": {"node.nodearray": "hpc"}, "name": "free", "value": "`node.vcpu_count - 1`"},
        {"select": {"not": {"node.nodearray": ["hpc", "old"]}}, "name": "free", "value": 1},
        {"select": {}, "name": "m_mem_free", "value": "node.resources.memmb"},
        {"select": {"node.spot": False}, "name": "slot_type", "value": "node.nodearray"},
        {"select": {}, "name": "qname", "value": "node.software_configuration.gridengine.qname"},
    ],
    "gridengine": {
        "idle_timeout": 300,
        "add_schedulers_to_hostgroups": True,
        "relevant_complexes": ["slots", "qname", "m_mem_free", "exclusive", "slot_type", "nodearray"],
        "queues": {
            "hpc.q": {
                "constraints": [
                    {"node.nodearray": "hpc"},
                    {"or": [{"node.infiniband": "true"}, {"node.nodearray": "htc"}]},
                ],
                "hostlist": "NONE",
                "pes": {"mpi": {"hostgroups": ["@hpc.q_mpi"]}},
            },
            "htc.q": {"constraints": [{"node.nodearray": ["htc", "spot"]}], "hostlist": "@htc.q"},
        },
    },
}


@pytest.fixture
def autoscale_json(tmp_path: Path) -> Path:
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


def notes(text: str) -> dict[str, str]:
    return dict(re.findall(r"^note: ([^:]+): (.*)$", text, re.MULTILINE))


def test_the_imported_settings_are_those_of_the_file_and_are_valid(autoscale_json: Path, tmp_path: Path) -> None:
    assert main(["config", "import", str(autoscale_json), "--to", str(tmp_path / "made")]) == 0
    (tmp_path / "password").write_text("x")
    made = tmp_path / "made" / "settings.toml"
    made.write_text(made.read_text().replace("/etc/sge-autoscaler/cyclecloud.password", str(tmp_path / "password")))
    settings = load_settings({}, made, known_prefixes=known_prefixes, strict=True)
    own = read_settings(CycleCloudSettings, settings.for_provider({}))
    assert (own.url, own.username, own.cluster, own.verify) == (DOCUMENT["url"], "scaler", 'hpc "one"', False)
    assert own.node_arrays == ("execute=hpc", "execute_1=htc", "execute_1=spot")
    assert [queue.queue for queue in settings.queues.values()] == ["hpc.q", "htc.q"]
    assert settings.queues["1"].host_group == "@htc.q"
    assert (settings.process.provider, settings.process.rules) == ("cyclecloud", made.parent / "rules.json")
    assert {queue.boot_timeout for queue in settings.queues.values()} == {3600.0}


def test_the_imported_rules_read_back_with_our_names_of_node_arrays(autoscale_json: Path, tmp_path: Path) -> None:
    assert main(["config", "import", str(autoscale_json), "--to", str(tmp_path / "made")]) == 0
    rules = load_rules(tmp_path / "made" / "rules.json")
    assert [(one.name, one.value, one.changes) for one in rules.default_resources] == [
        ("nodearray", "hpc", ()),
        ("slots", OfNode("vcpu_count"), ()),
        ("free", OfNode("vcpu_count"), ((Operator.SUBTRACT, 1),)),
        ("free", 1, ()),
        ("m_mem_free", OfResource("memmb"), ()),
        ("slot_type", "hpc", ()),
        ("slot_type", OfNode("nodearray"), ()),
    ]
    assert [one.select.document() for one in rules.default_resources[2:4]] == [
        {"node.nodearray": "execute"},
        {"not": {"node.nodearray": ["execute", "old"]}},
    ]
    assert rules.default_resources[5].select.document() == {
        "and": [{"node.spot": False}, {"node.nodearray": "execute"}]
    }
    assert [(entry.who.queues, entry.constraint.document()) for entry in rules.apply] == [
        (("hpc.q",), {"or": [{"node.infiniband": True}, {"node.nodearray": "execute_1"}]})
    ]
    assert dict(rules.complexes) == {name: name for name in ("m_mem_free", "slot_type", "nodearray")}
    assert rules.idle_timeout is not None
    assert (rules.idle_timeout.default, dict(rules.idle_timeout.named)) == (600, {"execute": 60, "gone": 90})


def test_each_ignored_key_is_reported_once_with_its_place(
    autoscale_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "import", str(autoscale_json)]) == 0
    printed = capsys.readouterr().err
    assert set(notes(printed)) == {
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE",
        "CP_CAP_AUTOSCALE_WORKERS",
        "api_token",
        "default_resources[2].select.not.node.nodearray",
        "default_resources[4]",
        "default_resources[5].value",
        "gridengine.add_schedulers_to_hostgroups",
        "gridengine.idle_timeout",
        "gridengine.queues.hpc.q.hostlist",
        "gridengine.queues.hpc.q.pes",
        "gridengine.relevant_complexes[0]",
        "gridengine.relevant_complexes[1]",
        "gridengine.relevant_complexes[3]",
        "idle_timeout.gone",
        "lock_file",
        "logging",
        "password",
        "the resource nodearray",
    }
    assert len(printed.splitlines()) == len(notes(printed))


def test_no_secret_is_printed_or_written(
    autoscale_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    codes = [
        main(["config", "import", str(autoscale_json)]),
        main(["config", "import", str(autoscale_json), "--to", str(made)]),
    ]
    out = "".join(capsys.readouterr()) + "".join(path.read_text() for path in made.iterdir())
    assert (codes, [secret for secret in SECRETS if secret in out]) == ([0, 0], [])


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"url": "https://scaler:hunter2!@cyclecloud.example.org"}, "url: it holds a password"),
        ({"default_resources": [{"name": "a", "value": "`os.getenv('X')`"}]}, "default_resources[0].value: "),
        (
            {"gridengine": {"queues": {"q": {"constraints": [{"node.spto": True}]}}}},
            "queues.q.constraints[0].node.spto",
        ),
        ({"idle_timeout": {"hpc": 60}}, "idle_timeout.default: it is missing"),
        ({"boot_timeout": "soon"}, "boot_timeout: a number of seconds above 0 is expected, not 'soon'"),
        ({"username": 7}, "username: text is expected, not 7"),
    ),
)
def test_an_invalid_value_is_refused_with_its_place_and_nothing_is_written(
    change: dict[str, Any], message: str, autoscale_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    autoscale_json.write_text(json.dumps(DOCUMENT | change))
    code = main(["config", "import", str(autoscale_json), "--to", str(tmp_path / "made")])
    printed = "".join(capsys.readouterr())
    assert (code, f"{autoscale_json}: " in printed, message in printed, (tmp_path / "made").exists()) == (
        2,
        True,
        True,
        False,
    ), printed
    assert "hunter2!" not in printed


def test_existing_files_are_not_overwritten(
    autoscale_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.json").write_text("mine")
    code = main(["config", "import", str(autoscale_json), "--to", str(tmp_path)])
    assert (code, "is there already" in capsys.readouterr().err) == (2, True)
    assert ((tmp_path / "rules.json").read_text(), (tmp_path / "settings.toml").exists()) == ("mine", False)


def test_a_file_with_only_a_server_needs_no_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text('{"cluster_name": "c", "url": "https://x", "username": "u"}')
    assert main(["config", "import", str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr()
    assert ("rules.json" in printed.out, "NODE_ARRAYS" in printed.err) == (False, True)


def test_host_groups_and_pes_are_reported_with_the_settings_to_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid_engine = {"hostgroups": {"@hpc": {}}, "pes": {"mpi": {"requires_placement_groups": True}}}
    (tmp_path / "a.json").write_text(json.dumps({"gridengine": grid_engine}))
    assert main(["config", "import", str(tmp_path / "a.json")]) == 0
    printed = notes(capsys.readouterr().err)
    assert "CP_CAP_SGE_HOSTLIST_NAME" in printed["gridengine.hostgroups"]
    assert "CP_CAP_AUTOSCALE_GROUP_PES" in printed["gridengine.pes"]


def test_a_node_array_named_twice_is_mapped_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second queue that names it gets a note: a node array can serve one queue."""
    first, second = ({"constraints": [{"node.nodearray": names}]} for names in (["a", "b", "a"], ["c", "b"]))
    select = {"node.nodearray": ["a", "b"]}
    document = {
        "gridengine": {"queues": {"one.q": first, "two.q": second}},
        "default_resources": [{"name": "x", "value": 1, "select": select}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert main(["config", "import", str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr()
    assert 'CYCLECLOUD_NODE_ARRAYS = "execute=a,execute=b,execute_1=c"' in printed.out
    assert json.loads(printed.out.partition("rules.json\n")[2])["default_resources"][0]["select"] == {
        "node.nodearray": ["execute"]
    }
    assert re.search(r"two\.q\.constraints: b: it serves execute already", printed.err)


@pytest.mark.parametrize(
    ("pairs", "taken"), (("execute=a,execute=a", ("execute=a",)), ("execute=a,execute_1=a", "a serves several"))
)
def test_a_pair_may_be_repeated_but_an_array_serves_only_one_of_ours(pairs: str, taken: object, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x")
    given = {"URL": "https://x", "USERNAME": "u", "CLUSTER": "c", "NODE_ARRAYS": pairs}
    given |= {"PASSWORD": f"file:{tmp_path / 'password'}"}
    environment = {f"CP_CAP_AUTOSCALE_CYCLECLOUD_{name}": value for name, value in given.items()}
    if isinstance(taken, tuple):
        assert read_settings(CycleCloudSettings, environment).node_arrays == taken
    else:
        with pytest.raises(SettingsError, match=str(taken)):
            read_settings(CycleCloudSettings, environment)
