"""A running autoscaler of a cell with two workers, reduced to the answers that `top` reads, which a test may change."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from autoscaler.answer_client import Unanswered
from autoscaler.errors import NotFound

AT = "2026-11-23T04:00:{:02}+00:00"
HOSTILE = "[bold red]x[/] \x1b[2J\x1b]0;owned\x07 [link=http://x]y[/link] \u202eevil\nline"
"""What a job's owner may have written: markup, escape sequences, another line, another direction."""


def a_reason(code: str, text: str) -> dict[str, Any]:
    return {"code": code, "text": text, "facts": {}, "trail": []}


def waiting(code: str, text: str, tasks: int, *, waited: float = 60.0, counted: bool = True) -> dict[str, Any]:
    first = [
        {"job": str(40 + each), "owner": "ann", "tasks": 1, "slots": 2, "waited_s": waited} for each in range(tasks)
    ]
    return {
        "key": f"{code} {counted}",
        "cause": {"code": code, "text": text, "owner_remedy": f"wait for {code}", "remedy": f"mend {code}"},
        "same": True,
        "reason": a_reason(code, text),
        "remedy": f"mend {code}",
        "owner_remedy": f"wait for {code}",
        "counted": counted,
        "jobs": tasks,
        "tasks": tasks,
        "longest_wait_s": waited,
        "first": first,
    }


def a_worker(name: str, **given: Any) -> dict[str, Any]:
    return {
        "name": name,
        "id": f"i-{name}",
        "verdict": "keep",
        "reason": a_reason("RUNS_JOBS", "job 4 runs"),
        "instance_type": "m5.large",
        "node_array": "execute",
        "group_id": None,
        "state": "running",
        "price_per_hour": 0.096,
        "slots": 2,
        "used": 1,
        "load": 0.5,
        "phase": "ready",
        "conditions": [],
        **given,
    }


def an_event(number: int, kind: str, text: str, **given: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"jobs": "", "worker_id": None, "order_id": None}
    return {"id": number, "kind": kind, "at": AT.format(number), "text": text, **plain, **given}


class Service:
    """Its answers are in `documents`; `away`: why it does not answer."""

    def __init__(self) -> None:
        self.number, self.away, self.trouble = 7, "", ""
        self.asked: list[str] = []
        self.done: list[tuple[str, ...]] = []
        self.documents: dict[str, Any] = {
            "status": {
                **dict.fromkeys(("paused", "stop", "circuit_breaker"), None),
                **{name: [] for name in ("protected", "troubles", "keep", "drain")},
                "schema": 1,
                "now": AT.format(0),
                "cell": "default of master:6444",
                "provider": "local",
                "pass_age_s": 1.0,
                "waiting": 5,
                "counted": 3,
                "fitting": 1,
                "workers": 2,
                "ordered": 1,
                "price_per_hour": 0.192,
                "currency": "USD",
                "unknown_prices": 0,
                "stopped": {},
            },
            "queue": {
                "reasons": [
                    waiting("COUNTED", "waits for a worker", 3, waited=600.0),
                    waiting("HELD", "held", 2, waited=7200.0, counted=False),
                ],
                "not_shown": 0,
            },
            "workers": {"workers": [a_worker("w1"), a_worker("w2", phase="booting", load=None, used=0)]},
            "passes": {"passes": [{"pass": 6, "at": AT.format(3), "sentence": "pass 6: launching 1 m5.large"}]},
            "events": {
                "events": [
                    an_event(1, "submitted", "jobs 40-42 of ann submitted", jobs="40-42"),
                    an_event(2, "ordered", "launch of 1 m5.large was ordered", order_id="0f0f"),
                    an_event(5, "joined", "worker w1 joined", worker_id="i-w1"),
                ]
            },
            "history": {
                "periods": [
                    {"at": AT.format(0), "slots_used": 1.0, "counted": 7.0, "slots": 2.0},
                    {"at": AT.format(30), "slots_used": 2.0, "counted": 2.0, "slots": 4.0},
                ]
            },
            "explain": [["", [], [], ["job 40 waits 10m"]]],
        }

    def ask(self, question: str, query: Mapping[str, str]) -> dict[str, Any]:
        self.asked.append(f"{question} {query['subject']}" if "subject" in query else question)
        if self.away:
            raise Unanswered(self.away)
        head = {"pass": self.number, "as_of": AT.format(self.number), "age_s": 1.0, "trouble": self.trouble}
        document = copy.deepcopy(self.documents[question])
        if question == "explain":
            if query["subject"] == "nobody":
                raise NotFound("there is no such thing")
            return {**head, "blocks": document}
        if question == "events":
            document["events"] = [one for one in document["events"] if one["id"] > int(query.get("after", "0"))]
        return {**head, "document": document}

    def act(self, words: Any) -> str:
        self.done.append(tuple(words))
        return f"done: {' '.join(words)}"
