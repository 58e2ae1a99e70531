"""`init --settings FILE` asks little, and writes a file that is valid and has all comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoscaler.commands._settings_file import questions
from autoscaler.commands.context import Invocation
from autoscaler.commands.init import command
from autoscaler.settings import load_settings
from autoscaler.settings.pages import sample_file


def init(file: Path, *words: str, typed: str = "", **environ: str) -> Result:
    return CliRunner().invoke(command, ["--settings", str(file), *words], input=typed, obj=Invocation(environ))


def test_answers_typed_and_defaults_make_a_valid_file_with_every_comment(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    done = init(file, typed="aws\nc5.xlarge\n\n600\n")
    assert done.exit_code == 0, done.output
    queue = load_settings({}, file).queues[""]
    assert (queue.instance_type, queue.workers, queue.idle_timeout, queue.hybrid) == ("c5.xlarge", 3, 600, False)
    assert done.output.splitlines()[-1] == f"wrote {file}; next: CP_CAP_AUTOSCALE_CONFIG={file} sge-autoscaler doctor"
    same = set(sample_file().splitlines()) & set(file.read_text().splitlines())
    assert len(set(sample_file().splitlines()) - same) == 4, "all other lines are those of the sample"


@pytest.mark.parametrize(("types", "family"), (("m5", "m5"), ("Dsv5", "Dsv5")))
def test_a_family_makes_a_hybrid_queue_without_a_question_if_flags_answer_all(
    tmp_path: Path, types: str, family: str
) -> None:
    file = tmp_path / "settings.toml"
    done = init(file, "--provider=aws", f"--types={types}", "--workers=9", "--idle=60", "--json")
    assert done.exit_code == 0, done.output
    queue = load_settings({}, file).queues[""]
    assert (queue.hybrid, queue.hybrid_family, queue.workers) == (True, family, 9)


def test_without_questions_what_is_missing_is_named_by_its_flag(tmp_path: Path) -> None:
    done = init(tmp_path / "settings.toml", "--yes", RUN_ID="77")
    assert ("--types is missing" in str(done.exception), list(tmp_path.iterdir())) == (True, [])


def test_an_existing_file_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("# mine\n")
    done = init(file, "--yes", "--provider=aws", "--types=m5")
    assert ("is left as it is" in str(done.exception), file.read_text()) == (True, "# mine\n")


@pytest.mark.parametrize(
    ("environ", "vendor", "found"),
    (
        ({}, "Amazon EC2", "aws"),
        ({}, "Microsoft Corporation", "azure"),
        ({"RUN_ID": "7"}, "", "cloud_pipeline"),
        ({}, "QEMU", ""),
    ),
)
def test_the_cloud_of_this_machine_is_the_default_provider(environ: dict[str, str], vendor: str, found: str) -> None:
    assert questions(environ, vendor)[0].found == found
