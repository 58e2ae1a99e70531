# sge-autoscaler shim: `sge-autoscaler platform install` puts it where Cloud Pipeline starts its autoscaler of a queue.
"""Starts sge-autoscaler for a queue of Grid Engine, and the platform's own script, kept beside it, for all else.

All queues of a cell are with the autoscaler that the first of them starts, while a process of it lives. Python 2.7, 3.
CP_CAP_AUTOSCALE_ENGINE: `ours` never falls back. SGE_AUTOSCALER: our program, else in /opt, else on PATH."""

import fcntl
import os
import runpy
import subprocess
import sys
import time

ORIGINAL = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "autoscale_grid_engine_platform.py")
LOCKS = "/run/sge-autoscaler"
CELL = "%s-%s" % (os.environ.get("SGE_ROOT", ""), os.environ.get("SGE_CELL", "default"))
OURS = dict(each for each in os.environ.items() if each[0] not in ("PYTHONPATH", "PYTHONHOME"))  # of another Python
SGE, OTHER = (None, "", "SGE"), {"ours": "platform", "platform": "ours"}
CALLED = {"ours": "sge-autoscaler", "platform": "the platform's own autoscaler"}


def is_set(name):
    return os.environ.get(name, "").strip().lower() in ("true", "yes", "on", "1")


def say(text):
    folder = os.environ.get("CP_CAP_AUTOSCALE_LOGDIR") or os.environ.get("LOG_DIR") or "/var/log"
    line = "%s [MainThread] [WARNING] %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), text)
    os.write(1, line.encode("utf-8"))
    path = os.path.join(folder, "autoscaler.sge.%s.log" % (os.environ.get("CP_CAP_SGE_QUEUE_NAME") or "main.q"))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # whatever stands there, we go on
    try:
        with os.fdopen(os.open(path, flags, 0o644), "a") as log:
            log.write(line)
    except (IOError, OSError):
        pass


def our_program():
    """Our program, or None and why it cannot be started."""
    named, path = os.environ.get("SGE_AUTOSCALER"), "/opt/sge-autoscaler/bin:" + os.environ.get("PATH", "")
    places = [named] if named else [each + "/sge-autoscaler" for each in path.split(":") if each[:1] == "/"]
    program = next((each for each in places if os.path.isfile(each) and os.access(each, os.X_OK)), None)
    if program is None:
        return None, "sge-autoscaler is not installed (%s)" % (named or places[0] + ", PATH")
    with open(os.devnull, "w") as null:
        status = subprocess.call(["timeout", "60", program, "--version"], stdout=null, stderr=null, env=OURS)
    return (program, "") if status == 0 else (None, "%s cannot be started (exit status %s)" % (program, status))


def locked(name, kind):
    """A descriptor that holds this lock; None if a process of the other kind holds it."""
    handle = os.open(os.path.join(LOCKS, name + CELL.replace(os.sep, "-")), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, kind)
    except (IOError, OSError):
        return os.close(handle)
    return handle


def join(engine):
    """Count among the processes of this autoscaler for life; False if the other one serves the cell."""
    try:
        os.path.isdir(LOCKS) or os.makedirs(LOCKS, 0o755)
        choosing, other = locked("choosing", fcntl.LOCK_EX), locked(OTHER[engine], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (IOError, OSError) as error:  # if the folder is there, other queues may have chosen by it
        nothing = os.path.isdir(LOCKS) or os.environ.get("CP_CAP_AUTOSCALE_ENGINE", "").strip().lower() == "ours"
        say("%s: %s" % (error, "nothing is started" if nothing else "the platform's own autoscaler is started"))
        sys.exit(1 if nothing else original())
    if other is not None:
        getattr(os, "set_inheritable", lambda *_: None)(locked(engine, fcntl.LOCK_SH), True)
        os.close(other)
    return os.close(choosing) or other is not None


def original():
    if os.path.isfile(ORIGINAL):
        return runpy.run_path(ORIGINAL, run_name="__main__") and 0
    return say("%s is gone, so nothing is started: copy the platform's own script there" % ORIGINAL) or 1


def main():
    if is_set("CP_CAP_KUBE") or is_set("CP_CAP_SLURM") or os.environ.get("CP_CAP_AUTOSCALE_GRID_ENGINE") not in SGE:
        return original()
    wanted, (program, why) = os.environ.get("CP_CAP_AUTOSCALE_ENGINE", "").strip().lower(), our_program()
    engine = "platform" if wanted == "platform" or (program is None and wanted != "ours") else "ours"
    if why and wanted != "platform":
        say("%s: %s" % (why, "nothing is started" if wanted == "ours" else "the platform's own autoscaler is started"))
    if (program or engine == "platform") and not is_set("CP_CAP_AUTOSCALE_DRY_INIT") and not join(engine):
        engine = say("other queues of this cell are with %s" % CALLED[OTHER[engine]]) or OTHER[engine]
        if wanted == "ours" or (engine == "ours" and program is None) or not join(engine):
            return say("%s cannot take part: nothing is started for this queue" % CALLED[OTHER[engine]]) or 1
    if engine == "platform":
        return original()
    return os.execve(program, [program, "platform", "serve", sys.argv[0]], OURS) if program else 1


if __name__ == "__main__":
    sys.exit(main())
