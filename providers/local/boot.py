"""What a local machine runs: a wait as long as a cloud needs to boot, then the ordered boot script, once.

The machine lives on when its script has ended, well or not, as a cloud's does; its PID 1 is the namespaces' own.
"""

from __future__ import annotations

from pathlib import Path

INIT = """\
#!/bin/sh
# usage: init.sh FOLDER SECONDS: wait, then run FOLDER/boot.sh; all that is printed goes to FOLDER/console.log
# WORKER_FOLDER lets the machine end itself: it says so there, and ends its PID 1.
exec >>"$1/console.log" 2>&1 </dev/null
export WORKER_FOLDER="$1"
# Files are shared with all hosts, but a machine has settings and programs of its own.
own=/run/sge-autoscaler/worker
export WORKER_ETC="$own" WORKER_BIN="$own/bin"
if mkdir -p "$own" && mount -t tmpfs -o mode=0755 own "$own" && mkdir "$own/bin" "$own/upper" "$own/work"; then
    layers="lowerdir=/usr/local/bin,upperdir=$own/upper,workdir=$own/work"
    ! mount -t overlay -o "$layers" own /usr/local/bin || WORKER_BIN=/usr/local/bin
else
    WORKER_ETC="$1" WORKER_BIN="$1/bin"
fi
cd /
sleep "$2"
echo "$(hostname): boot script starts"
"$1/boot.sh"
echo "$(hostname): boot script ended with status $?"
"""

BROKEN_BOOT = """\
#!/bin/sh
echo "boot failed, as asked by CP_CAP_AUTOSCALE_LOCAL_FAILING_BOOTS"
exit 1
"""


def boot_argv(folder: Path, delay: float) -> tuple[str, ...]:
    """The program a machine is started with."""
    return ("/bin/sh", str(folder / "init.sh"), str(folder), f"{delay:g}")


def boot_environment(worker_id: str, instance_type: str) -> dict[str, str]:
    """All that a machine knows when it starts: nothing of the autoscaler's environment reaches it."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "WORKER_ID": worker_id,
        "WORKER_TYPE": instance_type,
    }
