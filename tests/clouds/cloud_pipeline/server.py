"""The platform's REST API over HTTP, as a process: `python -m tests.clouds.cloud_pipeline.server --port 0`.

It prints one JSON line, where it listens and what a master container's environment would hold, and serves until it is
ended. With `--tree` its runs are real hosts of the cell it runs in. Under `/control/` tests change the platform
and ask for faults; the API itself never looks there.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.clouds.cloud_pipeline import bodies
from tests.clouds.cloud_pipeline.bodies import Note
from tests.clouds.cloud_pipeline.platform import Platform, Refusal, Run, text_of, usual_platform
from tests.clouds.machines import announce

BASE = "/pipeline/restapi"
KEY = "cluster.allowed.instance.types.docker"


@dataclass(slots=True)
class Fault:
    """What goes wrong with the next `times` calls whose method and path match `call`, such as `POST run/*/status`."""

    call: str
    kind: str
    """`status`, `error`, `reset`, `lost`, `slow`, `garbage` or `nameless`; `lost`, `slow` and `nameless` do what was
    asked.
    """
    times: int = 1
    status: int = 500
    message: str = "Internal error"
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    later_pages: bool = False
    """Only pages of a listing after the first meet it."""


class Broken(Exception):
    """The connection is to end without an answer."""


class Server(ThreadingHTTPServer):
    """Serves one platform, and counts what it was asked."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.reset()

    def reset(self) -> None:
        self.platform, self.master = usual_platform()
        self.faults: list[Fault] = []
        self.calls: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.malformed: list[str] = []
        """What the server takes, but no provider of ours should send: see `bodies`."""
        self.first_token = self.platform.new_token(86400.0)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def environment(self) -> dict[str, str]:
        """What the platform puts into the container of the master run."""
        asked = self.master.asked
        return {
            "API": f"{self.address}{BASE}/",
            "API_TOKEN": self.first_token,
            "RUN_ID": str(self.master.id),
            "DEFAULT_HOSTFILE": "/common/hostfile",
            "instance_size": asked["instanceType"],
            "instance_disk": str(asked["hddSize"]),
            "docker_image": asked["dockerImage"],
            "price_type": "on_demand",
            "CLOUD_PROVIDER": "AWS",
            "CLOUD_REGION_ID": "1",
            "OWNER": "USER",
            "node_count": "0",
        }

    def take_fault(self, call: str, asked: bytes) -> Fault | None:
        for fault in self.faults:
            if fault.later_pages and json.loads(asked or b"{}").get("page", 1) == 1:
                continue
            if fnmatchcase(call, fault.call) and fault.times > 0:
                fault.times -= 1
                return fault
        return None


class Handler(BaseHTTPRequestHandler):
    """One connection, kept alive from call to call."""

    protocol_version = "HTTP/1.1"
    server: Server
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, *_: Any) -> None:
        """Silent: tests read `calls`."""

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts.path.startswith("/control/"):
            self._answer(200, json.dumps(control(self.server, parts.path, json.loads(text or b"{}"))))
            return
        path = parts.path.removeprefix(BASE).strip("/")
        call = f"{method} {path}"
        with self.server.platform.guard:
            self.server.calls.append(call)
            fault = self.server.take_fault(call, text)
        try:
            self._meet(fault, lambda: self._outcome(method, path, dict(parse_qsl(parts.query)), text))
        except Broken:
            # A reset, not an orderly end: the client learns nothing of what happened.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

    def _meet(self, fault: Fault | None, act: Any) -> None:
        match fault:
            case None:
                self._answer(*act())
            case Fault(kind="status"):
                self._answer(fault.status, "<html><body>no</body></html>", fault.headers, kind="text/html")
            case Fault(kind="error"):
                self._answer(200, _envelope(None, "ERROR", fault.message))
            case Fault(kind="garbage"):
                self._answer(200, '{"payload": [')
            case Fault(kind="nameless"):
                self._answer(200, _nameless(act()[1]))
            case Fault(kind="slow"):
                time.sleep(fault.seconds)
                self._answer(*act())
            case Fault(kind="lost"):
                act()
                raise Broken
            case _:
                raise Broken

    def _outcome(self, method: str, path: str, query: dict[str, str], text: bytes) -> tuple[int, str]:
        """Status and body of the answer."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        platform = self.server.platform
        renews = path == "user/token"
        if not (platform.takes(token) or (renews and token in platform.tokens)):
            return 401, '{"message": "Authentication failed"}'
        call = Call(platform, method, path.split("/"), query, self._note)
        try:
            call.body = json.loads(text) if text else None
            if method == "POST" and path == "run" and isinstance(call.body, dict):
                with platform.guard:
                    self.server.bodies.append(call.body)
            return 200, _envelope(dispatch(call), "OK")
        except (Refusal, ValueError) as error:
            # Whatever goes wrong is an answer 200 with the error's words (controller/ExceptionHandlerAdvice.java).
            if not isinstance(error, Refusal) or "Could not read" in str(error):
                self._note(str(error))
            return 200, _envelope(None, "ERROR", str(error))

    def _note(self, what: str) -> None:
        with self.server.platform.guard:
            self.server.malformed.append(f"{self.command} {self.path}: {what}")

    def _answer(
        self, status: int, text: str, headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@dataclass(slots=True)
class Call:
    """One request."""

    platform: Platform
    method: str
    path: list[str]
    query: dict[str, str]
    note: Note
    body: Any = None

    def only(self, *names: str) -> None:
        """The server takes no notice of parameters that it does not know: no provider of ours relies on one."""
        if unknown := self.query.keys() - set(names):
            self.note(f"no parameter {', '.join(sorted(unknown))}")
        if missing := set(names) - self.query.keys():
            self.note(f"without the parameter {', '.join(sorted(missing))}")


def dispatch(call: Call) -> Any:
    """The payload of one call. Raises Refusal.

    Each route names the file of the server (`api/src/main/java/com/epam/pipeline/`) that shows what it does, read at
    epam/cloud-pipeline 4c537d33.
    """
    platform = call.platform
    match call.method, call.path:
        # controller/pipeline/PipelineRunController.java: runPipeline; manager/pipeline/PipelineRunManager.java: runCmd
        case "POST", ["run"]:
            return platform.record(platform.launch(bodies.read_launch(call.body, call.note)))
        # controller/pipeline/PipelineRunController.java: filterRuns; dao/pipeline/PipelineRunDao.java
        case "POST", ["run", "filter"]:
            return filtered(platform, bodies.read_filter(call.body, call.note))
        # controller/pipeline/PipelineRunController.java: loadRunsByParentId (RunInfo.java)
        case "GET", ["run", "parents", number]:
            call.only()
            return [_compact(run) for run in platform.listed() if run.parent == int(number)]
        # controller/pipeline/PipelineRunController.java: loadRun; PipelineRunManager.java: loadPipelineRun
        case "GET", ["run", number]:
            call.only()
            return platform.record(platform.find(int(number)))
        # controller/pipeline/PipelineRunController.java: loadTaskLogs
        case "GET", ["run", number, "task"]:
            call.only("taskName")
            return task_log(platform, platform.find(int(number)), call.query)
        # controller/pipeline/PipelineRunController.java: updateRunStatus, terminateRun, updateRunTags, addLog
        case "POST", ["run", number, verb]:
            return change(call, platform.find(int(number)), verb)
        # controller/pipeline/PipelineController.java: getEstimatedPrice
        case "POST", ["pipeline", "price"]:
            asked = bodies.read(call.body, bodies.PRICE, call.note)
            return {
                "instanceType": asked["instanceType"],
                "pricePerHour": platform.price(asked["instanceType"], spot=bool(asked.get("spot"))),
            }
        # controller/cluster/ClusterController.java: loadAllowedInstanceAndPriceTypes
        case "GET", ["cluster", "instance", "allowed"]:
            call.only("regionId", "spot")
            types = platform.types if call.query.get("regionId", "1") == "1" else []
            return {KEY: types, "cluster.allowed.instance.types": types, "cluster.allowed.price.types": []}
        # controller/preference/PreferenceController.java
        case "GET", ["preferences", name]:
            return preference(platform, name)
        # controller/user/UserController.java: getSettings. The platform's own client asks for `duration`, and gets a
        # token of the default duration (workflows/pipe-common/pipeline/api/token.py).
        case "GET", ["user", "token"]:
            call.only("expiration")
            return {"token": platform.new_token(int(call.query.get("expiration", 86400)))}
        # controller/user/UserController.java: whoami, which the platform's `sge` tool asks for the user's groups
        case "GET", ["whoami"]:
            call.only()
            return {"userName": "USER", "groups": ["ROLE_ADVANCED_USER"], "roles": [], "admin": False}
        case _:
            raise Refusal(f"{call.method} {'/'.join(call.path)} is not there")


def filtered(platform: Platform, asked: dict[str, Any]) -> dict[str, Any]:
    """One page of the runs that match, newest first. `partialParameters` is SQL's `like` on the text of all
    parameters (PipelineRunDao.java): each `_` in it stands for any character.
    """
    like = re.compile(re.escape(asked["partialParameters"]).replace("_", ".").replace("%", ".*"), re.DOTALL)
    wanted = asked.get("statuses")
    found = [
        run
        for run in platform.listed()
        if run.parent == asked["parentId"]
        and run.id not in platform.hidden
        and (wanted is None or run.status in wanted)
        and like.search(run.text)
    ]
    begin = (asked["page"] - 1) * asked["pageSize"]
    page = found[begin : begin + asked["pageSize"]]
    return {"elements": [platform.record(run) for run in page], "totalCount": len(found)}


def change(call: Call, run: Run, verb: str) -> Any:
    platform, body = call.platform, call.body
    match verb:
        case "status":
            bodies.read_status(body, call.note)
            platform.stop(run)
        case "terminate":
            if body is not None:
                call.note("no body is wanted")
            platform.terminate(run)
        case "tag":
            tag(platform, run, bodies.texts(bodies.read(body, bodies.TAGS, call.note).get("tags")), call.query)
        case "log":
            line = bodies.read_log(body, call.note)
            platform.find(line["runId"]).log.append(line)
            return line
        case _:
            raise Refusal(f"a run has no {verb}")
    return platform.record(run)


def tag(platform: Platform, run: Run, tags: dict[str, str | None], query: dict[str, str]) -> None:
    """All tags are replaced, or these added where `overwrite` is false (PipelineRunManager.java: updateTags). What is
    kept is the text of the map, which leaves out what has no value (PipelineRunDao.java: updateRunTags;
    config/JsonMapper.java: WRITE_NULL_MAP_VALUES).
    """
    with platform.guard:
        added = {**run.tags, **tags} if query.get("overwrite") == "false" else tags
        kept = {name: text or run.tags.get(name) for name, text in added.items()} if platform.keeps_null else added
        run.tags = {name: text for name, text in kept.items() if text}


def task_log(platform: Platform, run: Run, query: dict[str, str]) -> list[dict[str, Any]]:
    return platform.set_up(run) if query.get("taskName") == "SGEWorkerSetup" else []


def preference(platform: Platform, name: str) -> dict[str, str]:
    if name not in platform.preferences:
        raise Refusal(f"Preference with name '{name}' not found")
    return {"name": name, "value": platform.preferences[name], "type": "INTEGER", "preferenceGroup": "Grid engine"}


def control(server: Server, path: str, asked: dict[str, Any]) -> Any:
    """What tests do to the platform, and what they ask about it."""
    platform = server.platform
    with platform.guard:
        match path.removeprefix("/control/"):
            case "reset":
                server.reset()
            case "fault":
                server.faults.append(Fault(**asked))
            case "heal":
                server.faults.clear()
                platform.limit, platform.refusal, platform.lag = None, None, 0.0
                platform.hidden_from = None
                platform.short_of = set()
            case "set":
                for name, value in asked.items():
                    setattr(platform, name, set(value) if isinstance(value, list) else value)
            case "timing":
                for name, value in asked.items():
                    setattr(platform.timing, name, value)
            case "run":
                run = platform.find(asked["id"])
                for name, value in asked.items():
                    setattr(run, name, value)
            case "tag":
                platform.find(asked["id"]).tags |= asked["tags"]
            case "end":
                platform.end(platform.find(asked["id"]), asked["status"], asked.get("reason"))
            case "forget":
                platform.runs = {number: run for number, run in platform.runs.items() if number == server.master.id}
                server.bodies.clear()
            case "static":
                return platform.add(**{**server.master.asked, "parentRunId": server.master.id, "params": {}}).id
            case "expire":
                platform.expire_tokens()
            case "withdraw":
                platform.tokens.clear()
            case "state":
                pass
            case _:
                raise ValueError(path)
        return state(server)


def state(server: Server) -> dict[str, Any]:
    """The whole state, for tests."""
    platform = server.platform
    return {
        "environment": server.environment(),
        "billable": [str(run.id) for run in platform.children(server.master.id) if not run.final or run.left],
        "calls": server.calls,
        "bodies": server.bodies,
        "malformed": server.malformed,
        "master": {"tags": server.master.tags, "log": server.master.log},
        "tokens": list(platform.tokens),
        "tags": {str(run.id): run.tags for run in platform.runs.values()},
        "timing": asdict(platform.timing),
    }


def _envelope(payload: Any, status: str, message: str | None = None) -> str:
    envelope = {"payload": payload, "message": message, "status": status}
    return json.dumps({name: value for name, value in envelope.items() if value is not None})


def _nameless(text: str) -> str:
    """An answer without the ids of its runs."""
    answer = json.loads(text)
    for record in answer["payload"].get("elements", [answer["payload"]]):
        record.pop("id", None)
    return json.dumps(answer)


def _compact(run: Run) -> dict[str, Any]:
    compact = {"runId": run.id, "status": run.status, "startDate": text_of(run.created)}
    return compact if run.ended is None else {**compact, "endDate": text_of(run.ended)}


def main() -> None:
    parser = argparse.ArgumentParser(description="A Cloud Pipeline platform on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--until-input-ends", action="store_true", help="End when standard input does.")
    parser.add_argument("--tree", type=Path, help="Directory of the namespace tree of a cell, whose hosts runs are.")
    chosen = parser.parse_args()
    server = Server(chosen.port)
    if chosen.tree is None:
        print(json.dumps({"address": server.address, "environment": server.environment()}), flush=True)
    else:
        from tests.clouds.cloud_pipeline.machines import rent_out_hosts

        hosts_file = rent_out_hosts(server.platform, chosen.tree)
        list_of_hosts = hosts_file.with_name("hostfile")
        list_of_hosts.write_text("")
        own = {"CP_CAP_AUTOSCALE_HOSTS_FILE": str(hosts_file), "DEFAULT_HOSTFILE": str(list_of_hosts)}
        announce({**server.environment(), **own}, f"{server.address}/control/state")
    if chosen.until_input_ends:
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    server.serve_forever(poll_interval=0.05)


def _end_with_input(server: Server) -> None:
    """End with the parent process, so that a killed test run leaves nothing behind."""
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
