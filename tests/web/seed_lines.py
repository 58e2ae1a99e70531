"""The lines with which CycleCloud's documentation shows its REST API, and what a reader puts in for placeholders."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping

STATUS = """curl --location --request GET '${CC-URL}/clusters/${CLUSTER}/status' \\
--header 'Authorization: Basic ****************************'"""
CREATE = """curl --location --request POST '${CC-URL}/clusters/${CLUSTER}/nodes/create' \\
--header 'Authorization: Basic ****************************' \\
--header 'Content-Type: text/plain' \\
--data-raw '{ "requestId" : "463270ca-abcd-1234-98d6-431ee3ef8ed5",
    "sets" : [
        {
            "count" : 1,
            "nodearray" : "ondemand"
        }
    ]
}'"""
NODES = """curl --location --request GET '${CC-URL}/clusters/${CLUSTER}/nodes?request_id=463270ca-abcd-1234-98d6-431ee3ef8ed5' \\
"""  # noqa: E501 - as it stands there, with nothing after its last backslash
CREATE_TOGETHER = """curl --location --request POST '${CC-URL}/clusters/${CLUSTER}/nodes/create' \\
--header 'Authorization: Basic ****************************' \\
--header 'Content-Type: text/plain' \\
--data-raw '{ "requestId" : "463270ca-abcd-1234-98d6-431ee3ef8ed5",
    "sets" : [
        {
            "count" : 4,
            "nodearray" : "ondemand",
            "placementGroupId" : "pg0",
            "definition" : { "machineType" : "Standard_Hc44rs" }
        }
    ]
}'"""
TERMINATE = """curl --location --request POST '${CC-URL}/clusters/${CLUSTER}/nodes/terminate' \\
--header 'Authorization: Basic ****************************' \\
--header 'Content-Type: text/plain' \\
--data-raw '{
 "ids" : ["62a1b116-abcd-1234-b290-b54ea23f1b68"]
}'"""
REQUEST, NODE = "463270ca-abcd-1234-98d6-431ee3ef8ed5", "62a1b116-abcd-1234-b290-b54ea23f1b68"


def argv(line: str, *, url: str, cluster: str, user: str, password: str, **others: str) -> tuple[str, ...]:
    """The command line as words, with its placeholders and `others` (text → text) filled in; the status of the answer
    is printed on a line of its own after its body. A line without credentials gets them.
    """
    basic = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    filled: Mapping[str, str] = {"${CC-URL}": url, "${CLUSTER}": cluster, "*" * 28: basic, **others}
    for placeholder, value in filled.items():
        line = line.replace(placeholder, value)
    words = shlex.split(line.replace("\\\n", " "))
    lacking = () if any(word.startswith("Authorization:") for word in words) else ("--user", f"{user}:{password}")
    return (*words, *lacking, "--silent", "--write-out", "\n%{http_code}")
