"""The provider of docs/extend.md is loaded from outside the project and keeps the contract."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.errors import SettingsError
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.contract import Fault
from autoscaler.providers.registry import load, provider_class

DOCUMENT = Path(__file__).parents[2] / "docs" / "extend.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder outside the project with the two files of the document."""
    for name, text in zip(("pool.py", "test_pool.py"), blocks("python"), strict=False):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_documents_provider_keeps_the_contract(outside: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_pool.py"]

    done = subprocess.run(
        argv, cwd=outside, env={"PYTHONPATH": str(outside)}, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 30, done.stdout


def test_the_documents_provider_is_loaded_by_import_path(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(outside)
    monkeypatch.delitem(sys.modules, "pool", raising=False)

    found = provider_class("pool:PoolProvider")

    assert Path(sys.modules[found.__module__].__file__ or "").parent == outside
    with pytest.raises(SettingsError, match=r"POOL_HOST is not a setting; did you mean CP_CAP_AUTOSCALE_POOL_HOSTS\?"):
        load("pool:PoolProvider", {"CP_CAP_AUTOSCALE_POOL_HOST": "ws1"}, "cell")
    monkeypatch.delitem(sys.modules, "pool")


def test_the_documents_catalogue_can_be_loaded(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    own = tmp_path / "own.toml"
    own.write_text(text, encoding="utf-8")

    offers = load_catalog(own).offers

    assert (offers["m5.large"].on_demand, offers["bigmem"].spot) == (0.107, 0.4)


def test_the_document_names_every_error_a_provider_may_raise() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    assert all(f"`{name}`" in text for name in ("OutOfCapacity", "QuotaReached", "Throttled", "Refused", "Unreachable"))


def test_the_documents_control_plane_names_every_fault() -> None:
    plane = blocks("python")[1]

    assert [fault.name for fault in Fault if f"Fault.{fault.name}" not in plane] == []
