"""Owners are notified by a file beside their output or by mail, with their own rights only: never through a link."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import pytest

from autoscaler.core.model.reasons import Code, because
from autoscaler.engine.job_owners import Nobody, Notices, append_to, as_owner, notice_files
from autoscaler.errors import CommandTimedOut
from autoscaler.process import Completed, Options, SystemRunner
from autoscaler.settings.process_settings import OwnerNotice
from autoscaler.sge.lookup import JobOwner, Lookup, read_owner

REASON = because(Code.UNKNOWN_PE, pe="mpi", queues=("main.q",), slots=100)
LETTER = (
    "Job 12 (sim) was deleted by sge-autoscaler:\n  no parallel environment mpi of the queues main.q takes 100 slots\n"
    "  What to do: `qconf -spl` lists the parallel environments; `qalter -pe PE SLOTS JOB` asks for another.\n"
)
ANN = pwd.struct_passwd(("ann", "x", 1001, 1001, "", "/home/ann", "/bin/sh"))
ROOT = pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/sh"))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights")


def job(
    *, owner: str = "ann", name: str = "sim", output: str = "", directory: str = "", mail: Sequence[str] = ()
) -> bytes:
    """What `qstat -j 12 -xml` prints of it."""
    cwd = f"<JB_cwd>{directory}</JB_cwd>" if directory else ""
    path = f"<JB_stdout_path_list><path_list><PN_path>{output}</PN_path></path_list></JB_stdout_path_list>"
    users = "".join(
        f"<mail_list><MR_user>{user}</MR_user><MR_host>{host}</MR_host></mail_list>"
        for user, _, host in (address.partition("@") for address in mail)
    )
    return (
        f"<?xml version='1.0'?>\n<detailed_job_info><djob_info><element><JB_job_number>12</JB_job_number>"
        f"<JB_owner>{owner}</JB_owner><JB_mail_list>{users}</JB_mail_list><JB_job_name>{name}</JB_job_name>"
        f"{path if output else ''}{cwd}</element></djob_info></detailed_job_info>"
    ).encode()


class Running:
    """A runner that answers `qstat` and `qconf`, and records every other command or runs it."""

    def __init__(self, answer: bytes, *, mailer: str = "/usr/bin/mail", really: bool = False) -> None:
        self.answer, self.mailer, self.really = answer, mailer, really
        self.calls: list[tuple[tuple[str, ...], str]] = []

    def __call__(self, argv: Sequence[str], **options: Unpack[Options]) -> Completed:
        if argv[0] == "qstat":
            return Completed(tuple(argv), 0, self.answer, b"", 0.0)
        if argv[0] == "qconf":
            return Completed(tuple(argv), 0, f"#global:\nmailer      {self.mailer}\n".encode(), b"", 0.0)
        self.calls.append((tuple(argv), options.get("stdin", b"").decode()))
        if self.really:
            return SystemRunner()(argv, **options)
        return Completed(tuple(argv), 0, b"", b"", 0.0)


def notify(way: OwnerNotice, runner: Running) -> str:
    return Notices(way, Lookup(runner), runner).notify(("12",), "deleted", REASON)


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "directory", "files"),
    (
        ("", "", ("/home/ann/sim.12.autoscaler",)),
        ("", "/work", ("/work/sim.12.autoscaler",)),
        ("/out", "/work", ("/out/sim.12.autoscaler", "/sim.12.autoscaler")),
        ("/out/log.txt", "/work", ("/out/log.txt/sim.12.autoscaler", "/out/sim.12.autoscaler")),
        ("log/$JOB_ID.txt", "/work", ("/work/log/12.txt/sim.12.autoscaler", "/work/log/sim.12.autoscaler")),
        ("$HOME/o", "/work", ("/home/ann/o/sim.12.autoscaler", "/home/ann/sim.12.autoscaler")),
        ("~/o", "/work", ("/home/ann/o/sim.12.autoscaler", "/home/ann/sim.12.autoscaler")),
        ("host:/o/x", "/work", ("/o/x/sim.12.autoscaler", "/o/sim.12.autoscaler")),
    ),
)
def test_the_file_is_beside_the_output(output: str, directory: str, files: tuple[str, ...]) -> None:
    owner = JobOwner(12, "ann", "sim", output, directory)
    assert notice_files(owner, "/home/ann") == files


@pytest.mark.parametrize(
    ("name", "file"),
    (
        ("../../etc/cron.d/x", ".._.._etc_cron.d_x.12.autoscaler"),
        ("a\nb c;$(x)", "a_b_c___x_.12.autoscaler"),
        ("", "job.12.autoscaler"),
        ("x" * 500, "x" * 100 + ".12.autoscaler"),
    ),
)
def test_the_name_of_a_job_cannot_change_the_directory_of_the_file(name: str, file: str) -> None:
    assert notice_files(JobOwner(12, "ann", name, "", "/work"), "/home/ann") == (f"/work/{file}",)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="sge-autoscaler-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def nobodys_folder(public: Path) -> Path:
    """A directory of `nobody`'s."""
    place = public / "out"
    place.mkdir()
    shutil.chown(place, "nobody")
    return place


# -- rights -------------------------------------------------------------------------------------------------


def test_root_writes_as_the_owner() -> None:
    argv = as_owner(ANN, 0, ("dd",))
    assert argv == ("setpriv", "--reuid=1001", "--regid=1001", "--init-groups", "--no-new-privs", "--", "dd")


def test_jobs_of_root_get_no_file() -> None:
    assert (as_owner(ROOT, 0, ("dd",)), notify(OwnerNotice.FILE, Running(job(owner="root")))) == (
        None,
        "the owner of 12 was not notified: the owner is root",
    )


def test_a_process_without_root_writes_for_its_own_user_only() -> None:
    assert (as_owner(ANN, 1001, ("dd",)), as_owner(ANN, 1002, ("dd",))) == (("dd",), None)


@needs_root
def test_the_file_belongs_to_the_owner(nobodys_folder: Path) -> None:
    result = notify(OwnerNotice.FILE, Running(job(owner="nobody", directory=str(nobodys_folder)), really=True))
    file = nobodys_folder / "sim.12.autoscaler"
    assert (result, file.read_text(), file.owner()) == ("", LETTER, "nobody")


@needs_root
def test_a_second_notification_is_appended(nobodys_folder: Path) -> None:
    runner = Running(job(owner="nobody", directory=str(nobodys_folder)), really=True)
    notify(OwnerNotice.FILE, runner)
    notify(OwnerNotice.FILE, runner)
    assert (nobodys_folder / "sim.12.autoscaler").read_text() == LETTER * 2


@needs_root
@pytest.mark.parametrize("where", ("file", "directory"))
def test_root_never_writes_through_a_link_that_a_user_planted(where: str, public: Path, nobodys_folder: Path) -> None:
    secret = public / "roots"
    secret.mkdir(mode=0o755)
    (secret / "shadow").write_text("root's\n")
    (secret / "sim.12.autoscaler").write_text("root's\n")
    if where == "file":
        (nobodys_folder / "sim.12.autoscaler").symlink_to(secret / "shadow")
        directory = nobodys_folder
    else:
        directory = nobodys_folder / "link"
        directory.symlink_to(secret)
    result = notify(OwnerNotice.FILE, Running(job(owner="nobody", directory=str(directory)), really=True))
    kept = [(secret / name).read_text() for name in ("shadow", "sim.12.autoscaler")]
    assert (result.startswith("the owner of 12 was not notified: "), kept) == (True, ["root's\n"] * 2)


@needs_root
def test_a_link_to_a_file_of_the_owner_is_not_followed_either(nobodys_folder: Path) -> None:
    """In a directory that others may write to, the link may belong to somebody else."""
    own = nobodys_folder / "own"
    own.write_text("ann's\n")
    shutil.chown(own, "nobody")
    (nobodys_folder / "sim.12.autoscaler").symlink_to(own)
    notify(OwnerNotice.FILE, Running(job(owner="nobody", directory=str(nobodys_folder)), really=True))
    assert own.read_text() == "ann's\n"


@needs_root
def test_a_pipe_without_a_reader_does_not_block(nobodys_folder: Path) -> None:
    os.mkfifo(nobodys_folder / "sim.12.autoscaler", 0o666)
    shutil.chown(nobodys_folder / "sim.12.autoscaler", "nobody")
    result = notify(OwnerNotice.FILE, Running(job(owner="nobody", directory=str(nobodys_folder)), really=True))
    assert ("not notified" in result, stat.S_ISFIFO((nobodys_folder / "sim.12.autoscaler").stat().st_mode)) == (
        True,
        True,
    )


def test_dd_appends_and_does_not_follow_links() -> None:
    assert append_to("/a b") == ("dd", "of=/a b", "oflag=append,nofollow,nonblock", "conv=notrunc", "status=none")


# -- mail --------------------------------------------------------------------------------------------------------------


def test_a_mail_goes_to_the_jobs_addresses_through_grid_engines_mailer() -> None:
    runner = Running(job(mail=("a.b@c.d", "ann@master")))
    notify(OwnerNotice.MAIL, runner)
    argv = ("/usr/bin/mail", "-s", "Job 12 was deleted by sge-autoscaler", "a.b@c.d", "ann@master")
    assert runner.calls == [(argv, LETTER)]


def test_without_an_address_the_mail_goes_to_the_owner() -> None:
    runner = Running(job())
    notify(OwnerNotice.MAIL, runner)
    assert runner.calls[0][0][3:] == ("ann",)


@pytest.mark.parametrize("address", ("-froot@x", "|sh", "/etc/passwd", "a b@c", "a@b;c", "~ann@x", "a@-x"))
def test_an_invalid_address_is_not_passed_to_the_mailer(address: str) -> None:
    runner = Running(job(mail=(address,)))
    assert (notify(OwnerNotice.MAIL, runner), runner.calls) == (
        "the owner of 12 was not notified: no valid address",
        [],
    )


def test_a_line_of_a_mail_never_starts_a_command_of_the_mailer() -> None:
    runner = Running(job(name="x\n~!reboot\n."))
    notify(OwnerNotice.MAIL, runner)
    assert [line for line in runner.calls[0][1].splitlines() if line[:1] in ("~", ".")] == []


def test_a_mailer_that_is_not_a_path_is_not_run() -> None:
    runner = Running(job(), mailer="none")
    assert ("no mailer" in notify(OwnerNotice.MAIL, runner), runner.calls) == (True, [])


# -- failures ------------------------------------------------------------------------------------------------


def test_by_default_the_owner_is_not_notified() -> None:
    runner = Running(job())
    assert (notify(OwnerNotice.NONE, runner), Nobody().notify(("12",), "held", REASON), runner.calls) == ("", "", [])


def test_a_mailer_that_hangs_is_reported() -> None:
    class Hanging(Running):
        def __call__(self, argv: Sequence[str], **more: object) -> Completed:
            if argv[0] == "/usr/bin/mail":
                raise CommandTimedOut("mail did not end within 5 s and was killed")
            return super().__call__(argv, timeout=1.0)

    assert (
        notify(OwnerNotice.MAIL, Hanging(job()))
        == "the owner of 12 was not notified: mail did not end within 5 s and was killed"
    )


def test_no_owner_is_notified_of_a_job_that_is_gone() -> None:
    runner = Running(b"<detailed_job_info><unknown_jobs><><ST_name>12</ST_name></></unknown_jobs></detailed_job_info>")
    assert (notify(OwnerNotice.FILE, runner), runner.calls) == ("the owner of 12 was not notified: the job is gone", [])


def test_an_owner_without_an_account_here_gets_no_file() -> None:
    runner = Running(job(owner="no such account"))
    assert notify(OwnerNotice.FILE, runner) == "the owner of 12 was not notified: the owner has no account on this host"


def test_tasks_of_an_array_are_notified_once() -> None:
    runner = Running(job())
    Notices(OwnerNotice.MAIL, Lookup(runner), runner).notify(("12.1-3", "12.7"), "deleted", REASON)
    assert len(runner.calls) == 1


def test_details_of_another_job_are_not_used() -> None:
    assert read_owner(job(), 13) is None
