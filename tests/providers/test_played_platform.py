"""The played platform answers as the server does, also the platform's own clients, less careful than ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.clouds.cloud_pipeline.plane import Process, started


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with started() as server:
        yield server


class Client:
    """Calls as workflows/pipe-common/pipeline/api/api.py makes them."""

    def __init__(self, process: Process) -> None:
        process.control("reset")
        self.environment: dict[str, str] = process.state["environment"]
        self.process = process

    @property
    def run(self) -> str:
        """Its number as the platform's client has it: text, out of the environment."""
        return self.environment["RUN_ID"]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        header = {"Authorization": f"Bearer {self.environment['API_TOKEN']}"}
        answer = requests.request(method, self.environment["API"] + path, json=body, headers=header, timeout=60)
        return answer.status_code, answer.json()


@pytest.fixture
def client(process: Process) -> Client:
    return Client(process)


LINE = {"logText": "Init: Scaling.", "taskName": "SGEAutoscaling", "status": "RUNNING"}


@pytest.mark.parametrize("date", ("2026-11-27 10:00:00.123", "2026-11-27 10:00:00.123456"))
def test_a_line_of_the_run_log_is_taken_with_the_runs_number_as_text(client: Client, date: str) -> None:
    status, answer = client.ask("POST", f"run/{client.run}/log", {**LINE, "runId": client.run, "date": date})
    assert (status, answer["status"]) == (200, "OK")
    (line,) = client.process.state["master"]["log"]
    assert (line["runId"], line["logText"]) == (int(client.run), "Init: Scaling.")
    assert client.process.state["malformed"], "a provider of ours writes a number"


@pytest.mark.parametrize(
    ("given", "words"),
    (
        ({"date": "2026-11-27T10:00:00Z"}, "cannot parse date"),
        ({"date": "2026-11-27 10:00:00"}, "cannot parse date"),
        ({"date": None}, "Parameter 'date' of RunLog is required"),
        ({"runId": "abc"}, "cannot deserialize RunLog.runId"),
        ({"level": "INFO"}, 'Unrecognized field "level"'),
    ),
)
def test_what_the_server_cannot_read_is_an_error_in_an_answer_200(
    client: Client, given: dict[str, Any], words: str
) -> None:
    body = {**LINE, "runId": client.run, "date": "2026-11-27 10:00:00.123", **given}
    status, answer = client.ask("POST", f"run/{client.run}/log", body)
    assert (status, answer["status"]) == (200, "ERROR")
    assert words in answer["message"]
    assert client.process.state["master"]["log"] == []


def test_a_parameter_that_the_server_does_not_know_has_no_effect(client: Client) -> None:
    """The platform's own client asks for a token of a `duration`."""
    _, answer = client.ask("GET", "user/token?duration=60")
    assert answer["payload"]["token"] in client.process.state["tokens"]
    assert any("no parameter duration" in note for note in client.process.state["malformed"])


def test_a_run_is_stopped_with_the_date_of_the_platforms_client(client: Client) -> None:
    static = client.process.control("static")
    body = {"status": "STOPPED", "endDate": "2026-11-27 10:00:00.123456"}
    assert client.ask("POST", f"run/{static}/status", body)[1]["payload"]["status"] == "STOPPED"


def test_tags_are_replaced_or_added_and_those_without_a_value_are_left_out(client: Client) -> None:
    def tagged(query: str, **tags: str | None) -> dict[str, str]:
        answer: dict[str, str] = client.ask("POST", f"run/{client.run}/tag{query}", {"tags": tags})[1]["payload"][
            "tags"
        ]
        return answer

    assert tagged("?overwrite=false", a="1") == {"project": "genomes", "a": "1"}
    assert tagged("?overwrite=false", project=None) == {"a": "1"}
    assert tagged("", b="2", c=None) == {"b": "2"}


def test_a_launch_without_a_type_is_refused_and_one_without_tags_is_not(client: Client) -> None:
    body = {"instanceType": "m5.large", "hddSize": "50", "dockerImage": "r/g/t", "parentRunId": client.run}
    assert client.ask("POST", "run", {**body, "instanceType": None})[1]["message"] == (
        "Settings 'instance_type' is not provided"
    )
    _, answer = client.ask("POST", "run", body)
    assert answer["payload"]["pipelineRunParameters"] == [
        {"name": "parent-id", "value": client.run, "resolvedValue": client.run}
    ]
