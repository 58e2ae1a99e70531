"""The files of a Grid Engine cell that commands read, without any Grid Engine."""

from __future__ import annotations

from pathlib import Path


def cell_files(root: Path, master: str = "master") -> dict[str, str]:
    """Write the files of the cell `default` below a new SGE_ROOT; returns the environment of its users."""
    common = root / "default" / "common"
    common.mkdir(parents=True)
    (common / "act_qmaster").write_text(f"{master}\n")
    (common / "bootstrap").write_text("ignore_fqdn true\n")
    return {"SGE_ROOT": str(root), "SGE_CELL": "default", "SGE_QMASTER_PORT": "6444"}
