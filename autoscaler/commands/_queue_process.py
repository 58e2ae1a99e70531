"""The process that Cloud Pipeline's launcher starts for one queue, and that its tools find, end and start again.

It registers its queue with its own settings, and stays until SIGTERM, whatever happens. One of these processes decides
for the whole cell: the one that holds the cell's lock. When that ends, however it ends, another goes on within a second
or two. When a queue comes, goes or has other settings, the one that decides begins anew with the settings of all.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from autoscaler import audit
from autoscaler.commands._output import echo
from autoscaler.commands._verify_queue import provider_of
from autoscaler.commands.context import Invocation
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.engine.loop import Loop, remaining
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.engine.queue_log import QueueLines, lines_taken
from autoscaler.engine.queue_register import QueueProcess, QueueRegister
from autoscaler.engine.queue_reporter import QueueReporter
from autoscaler.errors import AutoscalerError, LockHeld, SettingsError
from autoscaler.providers.interface import HasRunLog, KeepsCredentials
from autoscaler.report.log import configure_queue_log
from autoscaler.report.run_log import RunLog
from autoscaler.settings.policies import array_name
from autoscaler.settings.queue_profiles import (
    NAME,
    TAKE_OVER,
    VERBOSE,
    Profile,
    composed,
    differing_profiles,
    first_queue,
    is_true,
    numbered,
    own_profile,
)
from autoscaler.settings.sharing import given
from autoscaler.store.lock import lock_directory, running
from autoscaler.supervised import supervised

log = logging.getLogger("autoscaler.run")
NONE_LEFT = "it has no worker"
CAP = "CP_CAP_"
SCRIPTS = "CP_CAP_SCRIPTS_DIR"
"""The launcher's folder of profiles."""
"""Begins the names of settings."""
OF_LOG = frozenset(("CP_CAP_AUTOSCALE_LOGDIR", "CP_CAP_AUTOSCALE_TASK"))
LOOK_EVERY = 0.5
"""Seconds between two checks whether the one that decides has ended, or whether the queues have changed."""
SETTLED = 1.0
"""Seconds for which the queues must not have changed before one decides: the launcher starts them one after another."""
RENEWED = 600.0
"""Seconds between two checks whether credentials are to be renewed."""
AGAIN = 10.0
"""Seconds until what could not begin is tried again."""


class OwnQueue:
    """The queue of this process: its settings, its log."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = own_profile(environ)
        self.name = self.environ[NAME]
        self.profile = Profile(self.name, given({**self.environ, **_suffixed(environ)}))
        self.invocation = Invocation(composed(self.environ, [self.profile], {self.name: ""}))
        self._provider: KeepsCredentials | None = None
        self._renewed_at = time.monotonic()

    def renew(self) -> None:
        """Keep the credentials good with which this process may have to begin to decide, days after its start."""
        if self._provider is not None and time.monotonic() >= self._renewed_at + RENEWED:
            self._renewed_at = time.monotonic()
            self.environ = {**self.environ, **self._provider.credentials()}

    @contextlib.contextmanager
    def log(self) -> Iterator[list[logging.Handler]]:
        """Log as its settings say: printed, in its file, in the run's log. Raises SettingsError."""
        process = self.invocation.settings.process
        handlers = configure_queue_log(process, self.environ, self.name)
        run_log = self._run_log("DEBUG" if process.verbose else process.log_level_run)
        try:
            yield handlers if run_log is None else [*handlers, run_log]
        finally:
            if run_log is not None:
                run_log.close()

    def unknown(self) -> list[str]:
        """Names that are no settings, as a mistyped one; what only the platform reads is known."""
        return [said for said in self.invocation.settings.warnings if "is not a setting" in said]

    def differs(self) -> list[str]:
        """Of which settings of the whole cell this queue has not the value that holds, as far as queues are served."""
        with contextlib.suppress(AutoscalerError, OSError):
            register = QueueRegister.of(self.invocation.cell, lock_directory())
            others = profiles_of(register.processes(), register, self.environ)
            profiles = [*(each for each in others if each.queue != self.name), self.profile]
            found = differing_profiles(profiles, numbered(profiles, register.numbers()))
            return [sentence for queue, sentence in found if queue == self.name]
        return []

    def refuse(self, problems: Sequence[str]) -> None:
        """Say why this queue is not served where the platform's people look: printed, in its file, in the run's log."""
        first = f"queue {self.name} is not served:"
        lines = [first, *(f"  {problem}" for problem in problems)]
        self._log_in_spite_of_settings()
        try:
            with self.log():
                for line in lines:
                    log.error(line)
        except SettingsError as error:
            if str(error) not in "\n".join(problems):
                lines.append(str(error))
            echo("\n".join(lines))

    def _log_in_spite_of_settings(self) -> None:
        """If the settings cannot be read, keep only those that say where to log."""
        try:
            self.invocation.settings  # noqa: B018 - read here, so that an error shows
        except SettingsError:
            kept = {name: text for name, text in self.environ.items() if name in OF_LOG or not name.startswith(CAP)}
            own = own_profile({**kept, NAME: self.name})
            self.invocation = Invocation(composed(own, [Profile(self.name, given(own))], {self.name: ""}))

    def _run_log(self, level: str) -> RunLog | None:
        try:
            provider = provider_of(self.invocation)
        except SettingsError:
            return None  # reported when the settings are checked
        self._provider = provider if isinstance(provider, KeepsCredentials) else None
        if not isinstance(provider, HasRunLog):
            return None
        run_log = RunLog(provider.tell)
        run_log.addFilter(lambda record: getattr(record, "queue", None) in (None, self.name))
        run_log.attach(level)
        return run_log


def profiles_of(served: Sequence[QueueProcess], register: QueueRegister, environ: Mapping[str, str]) -> list[Profile]:
    """Those of the queues that are served, and those of queues whose process is away."""
    away, there = register.away(Path(environ.get(SCRIPTS) or "/common/cap_scripts")), {each.queue for each in served}
    return [
        *(Profile(each.queue, each.settings) for each in served),
        *(Profile(each.queue, each.settings, away=True) for each in away if each.queue not in there),
    ]


def _suffixed(environ: Mapping[str, str]) -> dict[str, str]:
    """The run's own variables for suffixed queues: they tell how it numbers its queues."""
    own = own_profile(environ)
    return {name: value for name, value in environ.items() if name not in own}


class QueueServing:
    """One for the life of the process."""

    def __init__(self, own: OwnQueue) -> None:
        self.own = own
        self.register = QueueRegister.of(own.invocation.cell, lock_directory())
        self._stop = ""
        self._stopped = threading.Event()
        self._loop: Loop | None = None
        self._said = ""

    def run(self) -> int:
        append_output()
        with self._signals(), self.own.log() as handlers:
            while not self._stop:
                try:
                    self._be_of_the_queue(handlers)
                except (AutoscalerError, OSError) as error:  # nobody starts this process again
                    self._say(f"cannot register: {error}; it is tried again", level=logging.ERROR)
                    self._stopped.wait(AGAIN)
            log.info("%s: the process of queue %s ends; %s", self._stop, self.own.name, self._remaining())
        return 0

    def _be_of_the_queue(self, handlers: Sequence[logging.Handler]) -> None:
        """Be the process of this queue until it is stopped; or wait a moment for the end of the one that still is."""
        with self.register.registered(self.own.name, self.own.profile.settings) as process:
            if process is None:
                self._say(f"another process still serves queue {self.own.name}: this one waits for its end")
                self._stopped.wait(LOOK_EVERY)
                return
            self._report_changes(process.former)
            with lines_taken(self.register.channel(self.own.name), lambda record: _handle(handlers, record)):
                self._serve()

    def _report_changes(self, former: Mapping[str, str] | None) -> None:
        """Which settings a person has changed since the last process of this queue."""
        now = self.own.profile.settings
        names = sorted(name for name in {*now, *(former or {})} if now.get(name) != (former or {}).get(name))
        if former is not None and names:
            log.info("settings that changed: %s", ", ".join(names))
            audit.changed(self.own.invocation.who, f"settings of queue {self.own.name} changed: {', '.join(names)}")

    def _remaining(self) -> str:
        """What becomes of the workers of its queue."""
        with contextlib.suppress(AutoscalerError, OSError):
            if self.own.invocation.store_file.exists():
                with self.own.invocation.store() as store:
                    last = store.observations.load()
                array = array_name(self.register.numbers().get(self.own.name, ""))
                listed = () if last is None else tuple(each.worker for each in last.workers)
                own = [each for each in listed if each.exists and each.node_array.partition(GROUPS)[0] == array]
                return (
                    f"{remaining(own, self.own.invocation.currency())}; they are left alone until it is started again"
                    if own
                    else NONE_LEFT
                )
        return "its workers are left alone until it is started again"

    def _serve(self) -> None:
        """Decide for the cell, or wait for the end of the one that does, until it is stopped."""
        from autoscaler.commands.serving import held_cell

        while not self._stop:
            try:
                with held_cell(self.own.invocation):
                    self._say("")
                    while not self._stop:
                        self._decide()
            except LockHeld:
                self._say(self._who_decides())
                self._stopped.wait(LOOK_EVERY)
                self.own.renew()
            except (AutoscalerError, OSError) as error:
                self._say(f"cannot begin: {error}; it is tried again", level=logging.ERROR)
                self._stopped.wait(AGAIN)

    def _who_decides(self) -> str:
        """Which process has the cell, and where it writes what it does; '': it has just ended."""
        who, name = running(self.own.invocation.cell), self.own.name
        if who is None:
            return ""
        if any(each.pid == who.pid for each in self.register.processes()):
            return f"process {who.pid} decides for this cell, and writes here what it does"
        if (drain := self.register.drain()) is not None and drain[0] == who.pid:
            return (
                f"process {who.pid} gives our workers back since `platform uninstall`, and writes into {drain[1]} what "
                f"it does; queue {name} is served again when it has ended, or after `sge-autoscaler platform install`"
            )
        return (
            f"process {who.pid} has this cell, and is none that the platform started for a queue (`sge-autoscaler run`,"
            f" `once` or `stop`): it writes elsewhere what it does, and queue {name} is served when it has ended"
        )

    def _decide(self) -> None:
        """Serve all registered queues until they change."""
        processes = self._settled()
        if self._stop:
            return
        if self.register.stopped_at() is not None:
            self._say("a person stopped the autoscaler of this cell: `sge restart QUEUE` starts it again")
            self._stopped.wait(LOOK_EVERY)
            return
        try:
            with self._lines(processes):
                invocation, served = self._of_all(processes)
                self._report_differences(served)
                self._loop_over(invocation, served, processes)
        except LockHeld as error:
            self._say(f"{error}; this process waits for its end", level=logging.WARNING)
            self._stopped.wait(AGAIN)
        except AutoscalerError as error:
            self._say(f"cannot serve this cell: {error}; it is tried again", level=logging.ERROR)
            self._wait_for_change(processes, AGAIN)
        except Exception:  # nobody starts this process again
            log.exception("a defect ended the autoscaler of this cell; it begins anew")
            self._wait_for_change(processes, AGAIN)

    def _of_all(self, processes: Sequence[QueueProcess]) -> tuple[Invocation, Sequence[QueueProcess]]:
        """The settings of all queues together. One that does not go with the others is left out, the youngest first.

        Once the platform's own autoscaler is back, a queue whose process has ended is still among them, so that its
        workers are known and given back; and none of the platform's workers is taken over any more.
        """
        leaving = self.register.leaving()
        there = {each.queue for each in processes}
        left = sorted((*processes, *(each for each in leaving if each.queue not in there)), key=lambda each: each.since)
        with_away = True
        while True:
            found = profiles_of(left, self.register, self.own.environ)
            profiles = [each for each in found if with_away or not each.away]
            numbers = numbered(profiles, self.register.numbers())
            environ = composed(self.own.environ, profiles, numbers)
            if leaving:
                environ.pop(TAKE_OVER, None)
            invocation = Invocation(environ)
            try:
                invocation.settings  # noqa: B018 - read here, so that an error shows which queue does not go with others
            except SettingsError as error:
                if any(each.away for each in profiles):  # an earlier version may have left them
                    log.error("settings of queues whose process is away do not hold: %s", error)  # noqa: TRY400
                    with_away = False
                    continue
                if len(left) == 1:
                    raise
                log.error("queue %s is left out: %s", left[-1].queue, error, extra={"queue": left[-1].queue})  # noqa: TRY400
                left = left[:-1]
                continue
            self.register.keep_numbers(numbers)
            return invocation, left

    def _report_differences(self, served: Sequence[QueueProcess]) -> None:
        """In the log of each queue that has not the value that holds; in all of them, where another queue than the
        launcher's first has the settings of the whole cell.
        """
        profiles = profiles_of(served, self.register, self.own.environ)
        numbers = numbered(profiles, self.register.numbers())
        first, is_first = first_queue(profiles, numbers)
        if any(each.away for each in profiles if each.queue == first):
            log.info("settings of the whole cell stay those of queue %s, whose process is away", first)
        elif not is_first:
            log.info("settings of the whole cell are those of queue %s: no process serves the first queue", first)
        for queue, sentence in differing_profiles(profiles, numbers):
            log.warning(sentence, extra={"queue": queue})

    @contextlib.contextmanager
    def _lines(self, processes: Sequence[QueueProcess]) -> Iterator[None]:
        """Send each other queue's lines to its process."""
        others = {each.queue: self.register.channel(each.queue) for each in processes if each.queue != self.own.name}
        root, lines = logging.getLogger(), QueueLines(others)
        root.addHandler(lines)
        root.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            root.removeHandler(lines)
            lines.close()

    def _loop_over(self, invocation: Invocation, served: Sequence[QueueProcess], all_: Sequence[QueueProcess]) -> None:
        from autoscaler.commands._http import listening
        from autoscaler.commands.run import report_problems
        from autoscaler.commands.serving import Around, serving
        from autoscaler.sge.events import Events

        verbose = {each.queue: is_true(each.settings.get(VERBOSE)) for each in served}

        def report(history: PassReporter) -> QueueReporter:
            return QueueReporter(history, verbose)

        with (
            serving(invocation, around=Around(report)) as loop,
            listening(invocation, loop),
            Events(loop.wakeup.ring, directory=invocation.store_file.with_suffix(".qevent")) as events,
        ):
            report_problems(invocation, loop, each_queue=False)
            queues = ", ".join(each.queue for each in served)
            log.info(
                "serving cell %s of %s by provider %s: %s%s",
                invocation.cell.cell,
                invocation.cell.master,
                loop.observer.provider.name,
                queues,
                "; dry run: it changes nothing" if loop.dry_run else "",
            )
            loop.listen(events)
            self._loop = loop
            try:
                with self._watching(loop, all_):
                    if self._stop:
                        loop.stop(self._stop)
                    loop.run()
            finally:
                self._loop = None
            if not loop.stopped_by:
                self.register.note_stop(time.time())

    @contextlib.contextmanager
    def _watching(self, loop: Loop, processes: Sequence[QueueProcess]) -> Iterator[None]:
        """Stop the loop when the queues have changed, until the end of the block."""
        ended, leaving = threading.Event(), self.register.leaving()

        def watch() -> None:
            while not ended.wait(LOOK_EVERY):
                self.own.renew()
                changed = self.register.processes() != tuple(processes) or self.register.leaving() != leaving
                if changed and not self._stop:
                    loop.stop("the queues changed, so it begins anew", anew=True)
                    return

        thread = supervised(watch, "queues", ended)
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _settled(self) -> tuple[QueueProcess, ...]:
        """The registered processes, once they have not changed for a while."""
        found, since = self.register.processes(), time.monotonic()
        while not self._stop and time.monotonic() - since < SETTLED:
            self._stopped.wait(LOOK_EVERY / 5)
            if (now := self.register.processes()) != found:
                found, since = now, time.monotonic()
        return found

    def _wait_for_change(self, processes: Sequence[QueueProcess], most: float) -> None:
        until = time.monotonic() + most
        while not self._stop and time.monotonic() < until and self.register.processes() == tuple(processes):
            self._stopped.wait(LOOK_EVERY)

    def _say(self, text: str, level: int = logging.INFO) -> None:
        """Once, until something else is said."""
        if text and text != self._said:
            log.log(level, text, extra={"queue": self.own.name})
        self._said = text

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the process after the current action; SIGHUP means nothing here: a changed profile
        takes effect with a restart.
        """

        def stop(number: int, _: FrameType | None) -> None:
            self._stop = signal.Signals(number).name
            self._stopped.set()
            if self._loop is not None:
                self._loop.stop(self._stop)

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def append_output(descriptors: Sequence[int] = (1, 2)) -> None:
    """Write at the end of the file that the output goes to. The platform's tool empties that file for the next process
    while this one still writes, which would otherwise go on at its old place and leave zeros before it.
    """
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # it is closed, or belongs to a file system that cannot
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_APPEND)


def _handle(handlers: Sequence[logging.Handler], record: logging.LogRecord) -> None:
    for handler in handlers:
        if record.levelno >= handler.level:
            handler.handle(record)
