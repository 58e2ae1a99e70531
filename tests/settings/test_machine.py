"""The master's cores and memory respect the container it runs in."""

from pathlib import Path

from autoscaler.settings import this_machine


def test_a_cgroup_limit_is_respected(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text("1073741824\n")

    machine = this_machine({}, tmp_path)

    assert (machine.cores, machine.memory) == (1, 1 << 30)


def test_the_older_cgroup_layout_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("150000\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")

    assert this_machine({}, tmp_path).cores == 1


def test_no_limit_means_the_whole_machine(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")

    assert this_machine({}, tmp_path) == this_machine({}, tmp_path / "nothing")


def test_the_core_count_of_the_platform_takes_precedence(tmp_path: Path) -> None:
    assert this_machine({"CLOUD_PIPELINE_NODE_CORES": "64"}, tmp_path).cores == 64
