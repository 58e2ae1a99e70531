"""A Grid Engine in memory with jobs of all kinds, which answers in the texts of 8.1.9.

The autoscaler's changes come through `__call__` as argv; what people do and failures come through methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from tests.sge.grid_engine_model import ROOT, GridEngineModel
from tests.soak import texts
from tests.soak.group_objects import COMPLEXES, GroupObjects
from tests.soak.job_commands import JobCommands
from tests.soak.jobs import MAIN, OTHER, OTHER_SLOTS, PES, Instance, Job, Room, Run
from tests.soak.processes import Processes

Who = Literal["us", "person"]
SCHEDULE_INTERVAL = 2.0
_SIZES = {"K": 2**-20, "M": 2**-10, "G": 1.0, "T": 1024.0}


class Cell(GridEngineModel):
    """`reports(host)`: whether its execd reported of late; `frozen(place)`: whether nothing moves there; `grouped`:
    whether there is a parallel environment of groups.
    """

    def __init__(
        self,
        now: Callable[[], float],
        reports: Callable[[str], bool],
        frozen: Callable[[str], bool],
        processes: Processes,
        *,
        grouped: bool = False,
    ) -> None:
        super().__init__(MAIN)
        self.now, self.reports, self.frozen, self.processes = now, reports, frozen, processes
        self.jobs: list[Job] = []
        self.groups = GroupObjects(self.group, lambda: self.jobs) if grouped else None
        self.off: dict[Instance, Who] = {}
        """Disabled queue instances, and who disabled them."""
        self.broken: set[Instance] = set()
        """In state E."""
        self.ended: list[Job] = []
        self.deleted_by_people: set[str] = set()
        self._about_jobs = JobCommands(lambda: self.jobs, self.configured)
        self._numbers = 0
        self._scheduled_at = now()

    # -- people and failures --------------------------------------------------------------------------------------

    def add_persistent(self, name: str, slots: int, memory: int) -> None:
        self.hosts[name] = f"slots={slots},h_vmem={memory}G"
        self.members.append(name)
        self.slots[name] = slots

    def submit(self, **asked: object) -> Job:
        self._numbers += 1
        job = Job(number=self._numbers, submitted=self.now(), **asked)  # type: ignore[arg-type]
        self.jobs.append(job)
        return job

    def delete(self, job: Job) -> None:
        """The owner's `qdel`: waiting tasks go at once, running ones show `dr` for a while."""
        job.waiting = []
        for run in job.runs:
            run.leaves_at = self.now() + 4.0

    def switch_by_hand(self, off: bool, at: Instance) -> None:
        """A person's `qmod -d` or `-e` of one queue instance. What is so already stays as whoever did it."""
        if at not in self.instances_of(at[1]):
            return
        if off:
            self.off.setdefault(at, "person")
        else:
            self.off.pop(at, None)

    def delete_by_hand(self, name: str) -> bool:
        """A person takes a host out of Grid Engine, if Grid Engine allows it."""
        if name in self.occupied or name in self.reserved or name not in self.hosts:
            return False
        self.members = [member for member in self.members if member != name]
        self.slots.pop(name, None)
        if self.groups is not None:
            self.groups.forget(name)
        del self.hosts[name]
        self.deleted_by_people.add(name)
        self._drop_states()
        return True

    # -- the state ------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> list[tuple[Job, Run]]:
        return [(job, run) for job in self.jobs for run in job.runs]

    @property
    def occupied(self) -> set[str]:
        return {name for _, run in self.runs for name in run.hosts}

    @property
    def instances_now(self) -> set[Instance]:
        members = {(queue, name) for name in self.members if name in self.hosts for queue in (MAIN, OTHER)}
        members |= {(MAIN, name) for name in self.attached if name in self.hosts}
        held = {at for _, run in self.runs for at in run.on}
        return members | held | {(MAIN, name) for name in self.reserved if name in self.hosts}

    def instances_of(self, name: str) -> list[Instance]:
        return sorted(at for at in self.instances_now if at[1] == name)

    def all_disabled(self, name: str) -> bool:
        """Whether no job can enter any queue instance of it, because all are disabled or there is none."""
        return all(at in self.off for at in self.instances_of(name))

    def total(self, at: Instance) -> int:
        if at[1] not in self.members and at[1] not in self.attached:
            return 0
        return self.slots.get(at[1], 0) if at[0] == MAIN else OTHER_SLOTS

    def values(self, name: str) -> tuple[int, float]:
        """Slots and GiB of an execution host as its `complex_values` say."""
        configured = dict(pair.split("=") for pair in self.hosts.get(name, "NONE").split(",") if "=" in pair)
        number = re.fullmatch(r"([0-9.]+)([KMGT]?)", configured.get("h_vmem", "0"))
        assert number is not None, configured
        memory = float(number[1]) * _SIZES[number[2]] if number[2] else float(number[1]) / 2**30
        return int(configured.get("slots", "9999")), memory

    def room(self, opened: Callable[[Instance], bool] | None = None) -> Room:
        """What is free where jobs may start now."""
        opened = opened or self.accepts_jobs
        room = Room()
        for name in self.hosts:
            slots, memory = self.values(name)
            reserved = name in self.reserved
            queues = [(at[0], self.total(at) - (reserved and at[0] == MAIN)) for at in self.instances_of(name)]
            opened_now = [(queue, n) for queue, n in queues if opened((queue, name))]
            room.add(name, slots, memory, opened_now, self._group_of(name))
        for job, run in self.runs:
            room.take(job, run.on)
        return room

    def configured(self) -> Room:
        """All that is configured, as if nothing ran and every queue instance were enabled."""
        room = Room()
        for name in self.hosts:
            slots, memory = self.values(name)
            all_of_it = [(at[0], self.total(at)) for at in self.instances_of(name)]
            room.add(name, slots, memory, all_of_it, self._group_of(name))
        return room

    def _group_of(self, host: str) -> str:
        return self.groups.open_to_jobs(host) if self.groups is not None else ""

    def accepts_jobs(self, at: Instance) -> bool:
        return at[1] in self.members and at not in self.off and at not in self.broken and self.reports(at[1])

    def can_start_jobs(self, name: str) -> bool:
        """Whether jobs can start on it at all: it has slots, and is enabled somewhere."""
        return self.values(name)[0] > 0 and any(map(self.accepts_jobs, self.instances_of(name)))

    def able(self) -> list[tuple[Job, list[int]]]:
        """Jobs with the tasks of them that would start if a host were there."""
        alive = {job.number for job in self.jobs if not job.over}
        return [(job, tasks) for job in self.jobs if (tasks := job.able(self.now(), alive))]

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, *, eager: bool = False) -> None:
        """What the time that passed brought. The scheduler runs at its interval, or now if `eager`."""
        now = self.now()
        if not eager and now - self._scheduled_at < SCHEDULE_INTERVAL:
            return
        passed, self._scheduled_at = now - self._scheduled_at, now
        self.processes.pass_by(self.runs, list(self.hosts), now)
        for job, run in self.runs:
            whole = self.processes.complete(run)
            if (
                whole
                and not run.suspended
                and run.leaves_at is None
                and not any(map(self.frozen, run.delivered.values()))
            ):
                run.left -= passed
            over = (whole and run.left <= 0) or (run.leaves_at is not None and now >= run.leaves_at)
            if over and self.processes.reachable(run):
                job.runs.remove(run)
                self.processes.end(run)
        self.ended += [job for job in self.jobs if job.over]
        self.jobs = [job for job in self.jobs if not job.over]
        self._drop_states()
        self._start()
        self.processes.pass_by(self.runs, list(self.hosts), now)

    def _start(self) -> None:
        room = self.room()
        for job, tasks in self.able():
            for task in list(tasks):
                on = room.place(job)
                if on is None:
                    break
                room.take(job, on)
                job.waiting.remove(task)
                job.runs.append(Run(task, on, self.now(), job.seconds))
                job.starts[task] = job.starts.get(task, 0) + 1

    def _drop_states(self) -> None:
        there = self.instances_now
        self.off = {at: who for at, who in self.off.items() if at in there}
        self.broken &= there

    # -- changes by argv -------------------------------------------------------------------------------------------

    def change(self, argv: tuple[str, ...]) -> tuple[int, str]:
        self.busy = self.occupied
        answered = self.answer(argv)
        self._drop_states()
        return answered

    def switch(self, off: bool, target: str) -> tuple[int, str]:
        queue, host = target.split("@")
        instances = [at for at in self.instances_of(host) if queue in ("*", at[0])]
        if not instances:
            return 1, f'invalid queue "{target}"'
        word, lines = "disabled" if off else "enabled", []
        for at in instances:
            if (at in self.off) == off:
                lines.append(f'Queue instance "{at[0]}@{host}" is already in the specified state: {word}')
                continue
            lines.append(f'{ROOT} changed state of "{at[0]}@{host}" ({word})')
            if off:
                self.off[at] = "us"
            else:
                del self.off[at]
        return 0, "\n".join(lines)

    def _shown_group(self, group: str) -> str:
        if self.groups is not None and group in self.groups.hosts:
            return self.groups.shown(group)
        return super().answer(("qconf", "-shgrp", group))[1]

    # -- texts -----------------------------------------------------------------------------------------------------

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        if argv[:2] == ("qconf", "-de") and "," in argv[2]:  # each is judged alone
            answers = [self.answer(("qconf", "-de", host)) for host in argv[2].split(",")]
            return max(code for code, _ in answers), "\n".join(text for _, text in answers)
        of_groups = self.groups.answer(argv) if self.groups is not None else None
        if of_groups is not None:
            return of_groups
        match argv:
            case ("qstat", "-u", owners, "-s", "a", "-r", "-f", "-xml"):
                return 0, texts.listing(self, owners)
            case ("qstat", "-u", owners, "-s", "a", "-f", "-xml"):
                return 0, texts.listing(self, owners, requests=False)
            case ("qhost", "-q", "-F", "-xml"):
                return 0, texts.hosts(self)
            case ("qstat", "-j", numbers, "-xml"):
                return 0, texts.details(self, {int(number) for number in numbers.split(",")})
            case ("qconf", "-sc"):
                return 0, COMPLEXES
            case ("qconf", "-se", "global"):
                return 0, "hostname global\ncomplex_values NONE\n"
            case ("qconf", "-srqs"):
                return 1, "no resource quota set defined"
            case ("qconf", "-ssconf"):
                return 0, f"algorithm default\nschedule_interval 0:0:{SCHEDULE_INTERVAL:g}\n"
            case ("qconf", "-sconf"):
                return 0, "#global:\nmax_unheard 00:00:20\nload_report_time 00:00:02\n"
            case ("qconf", "-sql"):
                return 0, f"{MAIN}\n{OTHER}\n"
            case ("qconf", "-sckptl"):
                return 1, "no ckpt interface definition defined"
            case ("qconf", "-spl"):
                return 0, "\n".join(PES)
            case ("qconf", "-sp", name) if name not in PES:  # of a group that is gone
                return 1, f'parallel environment "{name}" does not exist'
            case ("qconf", "-sp", name):
                return 0, f"pe_name {name}\nslots 999\nuser_lists NONE\nallocation_rule {PES[name]}\n"
            case ("qconf", "-sq", name):
                return 0, texts.queues(self)[name]
            case ("qconf", "-shgrp", *words) if self.groups is not None:
                return 0, "".join(map(self._shown_group, (word for word in words if word != "-shgrp")))
            case _:
                return self._about_jobs.answer(argv) or super().answer(argv)
