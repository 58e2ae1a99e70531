"""A cloud's bill beside the estimate: the difference of every worker is explained, and the parts add up."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.errors import SettingsError
from autoscaler.report.bill import read_bill
from autoscaler.report.reconcile import NO_PRICE, NOT_BILLED, NOT_KNOWN, Compared, compare, reconciled_blocks
from autoscaler.store.store import Store
from tests.cell_files import cell_files

TAG = "cell-0123456789ab"
CUR = (
    "identity/LineItemId,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UsageType,lineItem/ResourceId,"
    "lineItem/UsageAmount,lineItem/CurrencyCode,lineItem/UnblendedCost,pricing/unit,resourceTags/user:sge-autoscaler-cell"
)
CUR_2 = (
    "identity_line_item_id,line_item_usage_start_date,line_item_usage_end_date,line_item_usage_type,line_item_resource_id,"
    "line_item_usage_amount,line_item_currency_code,line_item_unblended_cost,pricing_unit,resource_tags"
)
AZURE = "Date,ResourceId,MeterCategory,Quantity,UnitOfMeasure,CostInBillingCurrency,BillingCurrency,Tags"
DAY = ("2026-11-03T00:00:00Z", "2026-11-03T01:00:00Z")


def aws(usage: str, resource: str, amount: str, cost: str, tag: str = TAG, *, second: bool = False) -> str:
    tags = f'"{{""user_sge_autoscaler_cell"":""{tag}""}}"' if second else tag
    return f"x,{DAY[0]},{DAY[1]},{usage},{resource},{amount},USD,{cost},Hrs,{tags}"


def azure(resource: str, category: str, amount: str, cost: str, tag: str = TAG) -> str:
    place = "/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute"
    tags = f'"""sge-autoscaler-cell"": ""{tag}"",""a"": ""b"""'
    return f"11/03/2026,{place}/{resource},{category},{amount},1 Hour,{cost},USD,{tags}"


def written(path: Path, *lines: str) -> Path:
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def row(key: str, cost: float, hours: float) -> dict[str, Any]:
    return {"key": key, "cost": cost, "rented_h": hours}


def explained(found: Sequence[Compared]) -> dict[str, tuple[float, ...]]:
    for one in found:
        assert one.time + one.price + one.other == one.difference
    return {
        one.worker_id: tuple(each / 1e6 for each in (one.difference, one.time, one.price, one.other)) for one in found
    }


LINES = [
    ("BoxUsage:m5.large", "i-1", "1.25", "0.1000"),
    ("EBS:VolumeUsage.gp3", "i-1", "3", "0.0100"),
    ("EU-SpotUsage:m5.large", "arn:aws:ec2:eu:1:instance/i-2", "0.5", "0.0200"),
    ("BoxUsage:m5.large", "i-stranger", "1", "0.0960"),
    ("EBS:VolumeUsage.gp3", "vol-1", "3", "0.0400"),
]


@pytest.mark.parametrize("second", (False, True))
def test_an_aws_bill_of_either_format_is_explained_by_worker(tmp_path: Path, second: bool) -> None:
    lines = [aws(*line, second=second) for line in LINES]
    foreign = aws("BoxUsage:m5.large", "i-foreign", "1", "99", "another-cell", second=second)
    file = written(tmp_path / "cur.csv", CUR_2 if second else CUR, *lines, foreign)
    bill = read_bill(file, ["i-1", "i-2", "i-3"], TAG)
    rows = [row("i-1", 0.096, 1.0), row("i-2", 0.03, 0.5), row("i-3", 0.05, 1.0)]
    found = compare(rows, bill)
    assert explained(found) == {
        "i-1": (0.014, 0.024, -0.02, 0.01),
        "i-2": (-0.01, 0.0, -0.01, 0.0),
        "i-3": (-0.05, 0.0, 0.0, -0.05),
        "i-stranger": (0.096, 0.0, 0.0, 0.096),
        "(other things of the cell)": (0.04, 0.0, 0.0, 0.04),
    }
    result = {one.worker_id: one.why for one in found}
    assert (result["i-3"], result["i-stranger"]) == (NOT_BILLED, NOT_KNOWN)
    assert sum(one.billed for one in found) == 266_000
    assert datetime.fromtimestamp(bill.since, UTC).isoformat() == "2026-11-03T00:00:00+00:00"


def test_an_azure_export_matches_machines_and_disks_by_name(tmp_path: Path) -> None:
    file = written(
        tmp_path / "azure.csv",
        AZURE,
        azure("virtualMachines/execute-abc-0", "Virtual Machines", "2", "0.2000"),
        azure("disks/execute-abc-0_OsDisk_1_77", "Storage", "1", "0.0050"),
        azure("virtualMachines/execute-xyz-1", "Virtual Machines", "1", "0.1"),
        azure("virtualMachines/somebodys", "Virtual Machines", "1", "5", "another-cell"),
    )
    bill = read_bill(file, ["execute-abc-0"], TAG)
    assert explained(compare([row("execute-abc-0", 0.18, 2.0)], bill)) == {
        "execute-xyz-1": (0.1, 0.0, 0.0, 0.1),
        "execute-abc-0": (0.025, 0.0, 0.02, 0.005),
    }
    assert bill.until - bill.since == timedelta(days=1).total_seconds()


def test_a_bill_without_all_hours_explains_nothing_by_time(tmp_path: Path) -> None:
    unknown = aws("BoxUsage:m5.large", "i-1", "60", "0.05").replace("Hrs", "Minutes")
    bill = read_bill(
        written(tmp_path / "cur.csv", CUR, aws("BoxUsage:m5.large", "i-1", "1", "0.1"), unknown), ["i-1"], TAG
    )
    assert explained(compare([row("i-1", 0.2, 2.0)], bill)) == {"i-1": (-0.05, 0.0, -0.05, 0.0)}


def test_the_resource_may_be_in_the_first_column(tmp_path: Path) -> None:
    file = written(tmp_path / "bill.csv", "ResourceId,CostInBillingCurrency", "/disks/i-1,0.5")
    assert read_bill(file, ["i-1"], TAG).workers["i-1"].other == 500_000


def test_a_worker_of_unknown_price_still_shows_what_was_billed(tmp_path: Path) -> None:
    bill = read_bill(written(tmp_path / "cur.csv", CUR, aws("BoxUsage:m5.large", "i-1", "1", "0.1")), ["i-1"], TAG)
    (one,) = compare([], bill)
    assert (one.worker_id, one.billed, one.other, one.why) == ("i-1", 100_000, 100_000, NO_PRICE)


def test_a_bill_in_another_currency_is_not_compared(tmp_path: Path) -> None:
    bill = read_bill(written(tmp_path / "cur.csv", CUR, aws(*LINES[0])), ["i-1"], TAG)
    assert [len(block.lines) for block in reconciled_blocks([], bill, "USD")] == [1]
    ((_, results),) = [block.lines for block in reconciled_blocks([], bill, "EUR")]
    assert results.startswith("the bill is in USD, the estimate in EUR")


def test_a_name_that_starts_with_a_worker_name_is_another_machine(tmp_path: Path) -> None:
    file = written(tmp_path / "azure.csv", AZURE, azure("virtualMachines/execute-abc-10", "Virtual Machines", "1", "1"))
    bill = read_bill(file, ["execute-abc-1"], TAG)
    assert (bill.workers, list(bill.unknown)) == ({}, ["execute-abc-10"])


@pytest.mark.timeout(60)
def test_a_resource_name_of_a_million_parts_is_read_in_time(tmp_path: Path) -> None:
    disk = azure(f"disks/execute-abc-0_{'-x' * 1_000_000}", "Storage", "1", "2")
    bill = read_bill(written(tmp_path / "azure.csv", AZURE, disk), ["execute-abc-0"], TAG)
    assert bill.workers["execute-abc-0"].other == 2_000_000


def test_a_gzipped_bill_is_read(tmp_path: Path) -> None:
    plain = written(tmp_path / "cur.csv", CUR, aws(*LINES[0]))
    packed = tmp_path / "cur.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_bill(packed, ["i-1"], TAG).workers == read_bill(plain, ["i-1"], TAG).workers


@pytest.mark.parametrize(
    ("lines", "message"),
    (
        (["a,b", "1,2"], "no columns of a known kind"),
        ([], "no columns of a known kind"),
        (["lineItem/ResourceId,a", "i-1,2"], "no columns of a known kind"),
        ([CUR, aws("BoxUsage:m5.large", "i-1", "1", "much")], "line 2"),
        ([CUR, "x,soon,later,BoxUsage,i-1,1,USD,1,Hrs,t"], "line 2"),
    ),
)
def test_an_unknown_bill_format_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_bill(written(tmp_path / "bill.csv", *lines), ["i-1"], TAG)


def test_an_invalid_gzip_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bill.csv.gz"
    file.write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_bill(file, ["i-1"], TAG)


def test_the_command_compares_the_estimate_with_a_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = cell_files(tmp_path / "sge")
    environ |= {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"), "CP_CAP_AUTOSCALE_CONFIG": ""}
    environ["CP_CAP_AUTOSCALE_TAG"] = TAG
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    began = (time.time() - 86_400) // 3600 * 3600
    store = Store.open(Invocation(environ).store_file)
    kind = InstanceType("m5.large", "m5", 2, 8 << 30)
    worker = Worker("i-1", kind, "execute", MachineState.RUNNING, began, name="w1", price_per_hour=0.096)
    store.history.note_workers([worker], ["i-1"], began, {}, "USD")
    store.history.note_workers([], [], began + 3600)
    store.close()
    begin, end = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (began, began + 3600))
    line = f"x,{begin},{end},BoxUsage:m5.large,i-1,1.0,USD,0.0768,Hrs,{TAG}"
    file = written(tmp_path / "cur.csv", CUR, line)
    assert main(["cost", "--reconcile", str(file), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["workers"]
    assert (one["worker_id"], one["estimate"], one["billed"], one["price"]) == ("i-1", 0.096, 0.0768, -0.0192)
    assert main(["cost", "--reconcile", str(file)]) == 0
    assert ["i-1", "0.0960", "0.0768", "-0.0192", "0.0000", "-0.0192", "0.0000"] in [
        each.split() for each in capsys.readouterr().out.splitlines()
    ]
    assert main(["cost", "--reconcile", str(file), "--by", "user"]) == 2


@pytest.mark.parametrize(
    "value", ("Infinity", "-1e999999", "1e90000", "NaN", "sNaN", "1e13", "12 USD", "1e-99999999999999999999")
)
def test_an_invalid_amount_is_reported_with_its_line(tmp_path: Path, value: str) -> None:
    file = written(tmp_path / "bill.csv", CUR, aws("BoxUsage:m5.large", "i-1", "1", value))
    with pytest.raises(SettingsError, match=f"line 2: '{value}' is no cost or amount"):
        read_bill(file, ["i-1"], TAG)


@pytest.mark.parametrize("date", ("12/31/9999", "06/01/9999", "01/01/1970", "01/01/0001"))
def test_a_date_out_of_range_is_reported_with_its_line(tmp_path: Path, date: str) -> None:
    line = azure("virtualMachines/i-1", "Virtual Machines", "1", "1").replace("11/03/2026", date)
    with pytest.raises(SettingsError, match="line 2"):
        read_bill(written(tmp_path / "bill.csv", AZURE, line), ["i-1"], TAG)


def test_a_damaged_gzip_bill_is_reported(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress("\n".join([CUR, *[aws("BoxUsage", "i-1", "1", "1")] * 50]).encode()))
    packed[12:20] = b"\xff" * 8
    (tmp_path / "bill.csv.gz").write_bytes(packed)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_bill(tmp_path / "bill.csv.gz", [], TAG)


def test_an_overlong_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.report.bill.LONGEST", 1000)
    (tmp_path / "bill.csv.gz").write_bytes(gzip.compress(f"{CUR}\n{'a' * 5000}".encode()))
    with pytest.raises(SettingsError, match="a line is longer than 1000 letters"):
        read_bill(tmp_path / "bill.csv.gz", [], TAG)


def test_a_bill_that_is_a_pipe_or_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(SettingsError, match="no regular file"):
            read_bill(tmp_path / name, [], TAG)
