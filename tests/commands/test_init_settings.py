"""`init --settings FILE` asks little, and writes a file that is valid and has all comments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoscaler.commands._settings_file import problem_of, questions
from autoscaler.commands.context import Invocation
from autoscaler.commands.init import command
from autoscaler.providers.catalog import load_catalog
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


@pytest.mark.parametrize(("provider", "family"), (("aws", "m5"), ("azure", "Dsv5")))
def test_a_family_makes_a_hybrid_queue_without_a_question_if_flags_answer_all(
    tmp_path: Path, provider: str, family: str
) -> None:
    file = tmp_path / "settings.toml"
    done = init(file, f"--provider={provider}", f"--types={family}", "--workers=9", "--idle=60", "--json")
    assert done.exit_code == 0, done.output
    queue = load_settings({}, file).queues[""]
    assert (queue.hybrid, queue.hybrid_family, queue.workers) == (True, family, 9)


def test_without_questions_what_is_missing_is_named_by_its_flag(tmp_path: Path) -> None:
    done = init(tmp_path / "settings.toml", "--yes", RUN_ID="77")
    assert ("--types is missing" in str(done.exception), list(tmp_path.iterdir())) == (True, [])


def test_without_a_terminal_a_question_that_nobody_answers_is_named_by_its_flag(tmp_path: Path) -> None:
    done = init(tmp_path / "settings.toml", "--provider=aws", typed="m5\n")
    assert (done.exit_code, "give --workers" in done.output, list(tmp_path.iterdir())) == (2, True, []), done.output


def test_an_existing_file_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("# mine\n")
    done = init(file, "--yes", "--provider=aws", "--types=m5")
    assert ("is left as it is" in str(done.exception), file.read_text()) == (True, "# mine\n")


def test_the_untouched_file_of_the_package_is_filled_in_and_stays_readable_for_the_account(tmp_path: Path) -> None:
    file = tmp_path / "sge-autoscaler.toml"
    file.write_text(sample_file(), encoding="utf-8")
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 0, 12345)
    before = file.stat()
    done = init(file, "--yes", "--provider=aws", "--types=m5.large")
    assert (done.exit_code, load_settings({}, file).queues[""].instance_type) == (0, "m5.large"), done.output
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    again = init(file, "--yes", "--provider=aws", "--types=m5")
    assert "is left as it is" in str(again.exception)


def test_a_link_to_a_sample_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_text(sample_file(), encoding="utf-8")
    (tmp_path / "link.toml").symlink_to("sample.toml")
    done = init(tmp_path / "link.toml", "--yes", "--provider=aws", "--types=m5")
    assert ("is left as it is" in str(done.exception), (tmp_path / "link.toml").is_symlink()) == (True, True)


def test_an_answer_that_cannot_be_is_asked_for_again(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    done = init(file, typed='loca\nlocal\n7\nm5"\nm5.large\nten\n0\n10\nsoon\n60\n')
    assert done.exit_code == 0, done.output
    queue = load_settings({}, file).queues[""]
    assert (queue.instance_type, queue.workers, queue.idle_timeout) == ("m5.large", 10, 60)
    for said in (
        "loca",
        "'7' is no instance type",
        "'ten' is no whole number",
        "'0' is no whole",
        "'soon' is no whole",
    ):
        assert said in done.output


def test_what_was_typed_amiss_is_named_when_there_is_no_further_answer(tmp_path: Path) -> None:
    done = init(tmp_path / "settings.toml", typed="local\nm5.large\nten\n60\n")
    assert ("'ten' is no whole number of at least 1" in done.output, done.exit_code) == (True, 2)
    assert ("TOML" in done.output, list(tmp_path.iterdir())) == (False, [])


@pytest.mark.parametrize(
    ("words", "environ", "flag"),
    (
        (("--provider=nonsense", "--types=m5"), {}, "--provider"),
        (("--provider=aws", "--types=7"), {}, "--types"),
        (("--provider=aws", '--types=m5"\nX = "'), {}, "--types"),
        (("--provider=aws", "--types=zzz"), {}, "--types"),
        (("--provider=aws", "--types=Standard_D4s_v5"), {}, "--types"),
        (("--provider=azure", "--types=zzz"), {}, "--types"),
        (("--provider=cyclecloud", "--types=m5.large"), {}, "--types"),
        (("--provider=cloud_pipeline", "--types=zzz"), {"CLOUD_PROVIDER": "GCP"}, "--types"),
        (("--provider=local", "--types=m55"), {}, "--types"),
        (("--types=zzz",), {"CP_CAP_AUTOSCALE_PROVIDER": "aws"}, "--types"),
        (("--types=m5",), {"CP_CAP_AUTOSCALE_PROVIDER": "nonsense"}, "--provider"),
        (("--provider=aws",), {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "7"}, "--types"),
    ),
)
def test_without_questions_a_wrong_answer_is_named_by_its_flag_and_nothing_written(
    tmp_path: Path, words: tuple[str, ...], environ: dict[str, str], flag: str
) -> None:
    done = init(tmp_path / "settings.toml", "--yes", *words, **environ)
    assert (f"nothing was written: {flag}: " in str(done.exception), list(tmp_path.iterdir())) == (True, [])


@pytest.mark.parametrize(
    ("provider", "types"),
    (
        ("aws", "u-6tb1.56xlarge"),
        ("aws", "m5"),
        ("aws", "c5n.18xlarge"),
        ("aws", "x2iedn"),
        ("aws", "u7i-12tb.224xlarge"),
        ("azure", "Standard_NC4as_T4_v3"),
        ("azure", "NCasT4v3"),
        ("azure", "Fs"),
        ("azure", "Basic_A1"),
        ("cyclecloud", "Standard_HB120rs_v3"),
        ("cloud_pipeline", "n2-standard-4"),
        ("local", "m5.large"),
        ("local", "m5"),
    ),
)
def test_names_of_types_and_families_as_clouds_have_them_are_taken(provider: str, types: str) -> None:
    assert problem_of("types", types, provider) == ""


def test_every_name_of_the_catalogue_looks_like_one_of_its_cloud() -> None:
    offers = load_catalog().offers.values()
    wrong = [problem_of("types", name, each.cloud) for each in offers for name in (each.type.name, each.type.family)]
    assert (set(wrong), len(wrong) > 50) == ({""}, True)


def test_a_catalogue_of_ones_own_has_other_names(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    done = init(file, "--provider=local", "--types=m55", "--yes", CP_CAP_AUTOSCALE_LOCAL_CATALOG="/own.toml")
    assert (done.exit_code, load_settings({}, file).queues[""].hybrid_family) == (0, "m55"), done.output


def test_a_misspelt_family_is_asked_for_again_with_a_similar_one(tmp_path: Path) -> None:
    done = init(tmp_path / "settings.toml", typed="local\nm55\nm5\n3\n600\n")
    assert (done.exit_code, "'m55' is not in the catalogue; did you mean m5?" in done.output) == (0, True), done.output


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
