"""The file of a sweep: what it may say, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.errors import SettingsError
from autoscaler.simulation.sweep.points import points_of, title_of
from autoscaler.simulation.sweep.sweep_file import Range, Source, Sweep, read_sweep

IDLE, BATCH = "CP_CAP_AUTOSCALE_IDLE_TIMEOUT", "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE"
WORKLOAD = '[[workload]]\nsource = "generated:10"\n'
SETTINGS = f"[settings]\n{IDLE} = [30, 60]\n"


def read(tmp_path: Path, text: str) -> Sweep:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    return read_sweep(file)


def test_a_grid_has_every_combination_after_today(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"{SETTINGS}{BATCH} = [1, 5]\nCP_CAP_AUTOSCALE_HYBRID = true\n{WORKLOAD}")
    points = points_of(sweep)
    assert points[0] == {}
    assert [(point[IDLE], point[BATCH]) for point in points[1:]] == [("30", "1"), ("30", "5"), ("60", "1"), ("60", "5")]
    assert {point["CP_CAP_AUTOSCALE_HYBRID"] for point in points[1:]} == {"true"}
    assert title_of(points[0]) == "today"
    assert title_of(points[1]) == f"{IDLE}=30+{BATCH}=1+CP_CAP_AUTOSCALE_HYBRID=true"


def test_a_random_search_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    text = f"search = 'random'\npoints = 40\nseed = SEED\n[settings]\n{IDLE} = {{ from = 10, to = 1000, log = true }}\n"
    first, again, other = (points_of(read(tmp_path, text.replace("SEED", seed) + WORKLOAD)) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other
    values = [int(point[IDLE]) for point in first[1:]]
    assert len(set(values)) == 40
    assert 10 <= min(values) < 50
    assert sum(value < 100 for value in values) == pytest.approx(20, abs=8)


def test_a_random_search_makes_no_point_twice(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"search = 'random'\npoints = 50\n{SETTINGS}{BATCH} = [1, 5]\n{WORKLOAD}")
    assert len(points_of(sweep)) == 5


def test_what_is_left_out_has_defaults(tmp_path: Path) -> None:
    sweep = read(tmp_path, SETTINGS + WORKLOAD)
    assert sweep.sources == (Source("generated:10"),)
    assert (sweep.search, sweep.seeds, sweep.judge, sweep.mean_wait) == ("grid", (1,), 0.0, None)


def test_a_range_of_whole_numbers_is_whole() -> None:
    assert Range(1, 9).is_whole
    assert not Range(1, 9.5).is_whole


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("x = [", "is no TOML file"),
        ("serch = 'grid'\n", "the file: 'serch' is not known here; did you mean search?"),
        (WORKLOAD, "settings: it needs at least one, as CP_CAP_AUTOSCALE_IDLE_TIMEOUT = [30, 120, 600]"),
        (SETTINGS, "workload: it needs at least one"),
        (f"{SETTINGS}[workload]\nsource = 'x'\n", "workload: write [[workload]] before each"),
        (f"{SETTINGS}[[workload]]\nwindow = 3\n", "workload 1: 'window' is not known here; did you mean windows?"),
        (f"{SETTINGS}[[workload]]\njobs = 3\n", "workload 1: it needs a source"),
        (f"{SETTINGS}{WORKLOAD}windows = 0\n", "workload 1: windows: 0 is no whole number of 1 or more"),
        (f"search = 'random'\n{SETTINGS}{WORKLOAD}", "points: a random search needs them"),
        (f"search = 'rnd'\n{SETTINGS}{WORKLOAD}", "search: 'rnd' is none; did you mean random?"),
        (f"points = 4\n{SETTINGS}{WORKLOAD}", "points: only a random search has them"),
        (f"judge = 1\n{SETTINGS}{WORKLOAD}", "judge: 1: write a share"),
        (f"mean_wait = 'long'\n{SETTINGS}{WORKLOAD}", "mean_wait: 'long' is no duration: write 90s"),
        (f"seeds = [1, 1]\n{SETTINGS}{WORKLOAD}", "seeds: one is listed twice"),
        (f"seeds = 3\n{SETTINGS}{WORKLOAD}", "seeds: write a list"),
        (f"[settings]\n{IDLE} = []\n{WORKLOAD}", f"settings.{IDLE}: the list is empty"),
        (f"[settings]\n{IDLE} = [30, 30]\n{WORKLOAD}", f"settings.{IDLE}: a value is listed twice"),
        (f"[settings]\n{IDLE} = [[30]]\n{WORKLOAD}", f"settings.{IDLE}: [30] is no value"),
        (f"[settings]\n{IDLE} = {{ from = 10, to = 90 }}\n{WORKLOAD}", "a grid needs a list of values"),
        (f"[settings]\n{IDLE} = {{ from = 90, to = 10 }}\n{WORKLOAD}", "the first must be below the second"),
        (f"[settings]\n{IDLE} = {{ from = 10 }}\n{WORKLOAD}", "a range needs two numbers"),
        (f"[settings]\n{IDLE} = {{ from = 0, to = 9, log = true }}\n{WORKLOAD}", "needs numbers above 0"),
        (
            f"{SETTINGS}{WORKLOAD}[grid_engine]\nque = 'a'\n",
            "grid_engine: 'que' is not known here; did you mean queue?",
        ),
    ),
)
def test_a_wrong_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text)
    assert message in str(raised.value)
    assert str(tmp_path / "sweep.toml") in str(raised.value)


def test_a_grid_that_is_too_large_says_what_to_do(tmp_path: Path) -> None:
    many = list(range(200))
    with pytest.raises(SettingsError, match=r"40,000 points, more than 10,000; write search"):
        read(tmp_path, f"[settings]\n{IDLE} = {many}\n{BATCH} = {many}\n{WORKLOAD}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="check its path and rights"):
        read_sweep(tmp_path / "missing.toml")
