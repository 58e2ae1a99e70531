"""Child of the benchmark: prints by how many megabytes resident memory peaked while one reading was turned into a plan.

Read from the kernel's high-water mark, reset before the work: `ru_maxrss` would carry the parent's over.
"""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path

from bench.run import decide, read
from sge.cluster import Outputs

_MARK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def main(folder: Path) -> None:
    outputs = Outputs(qstat=(folder / "qstat.xml").read_bytes(), qhost=(folder / "qhost.xml").read_bytes())
    work = decide(outputs) or (lambda: read(outputs))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _high_water()
    work()
    print((_high_water() - before) / 1024)


def _high_water() -> int:
    found = _MARK.search(Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("no VmHWM in /proc/self/status: this kernel keeps no high-water mark")
    return int(found[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
