"""Grid Engine's messages, as 8.1.9 of Debian 12 printed them on a real cell, and what each means."""

from __future__ import annotations

import pytest

from autoscaler.sge.messages import Meaning, job_named, meaning

RECORDED = {
    Meaning.CHANGED: (
        'root@master added "w1" to exechost list',
        'root@master modified "w1" in exechost list',
        'root@master removed "w1" from execution host list',
        'root@master modified "@allhosts" in host group list',
        'root@master modified "main.q" in cluster queue list',
        'root@master added "local" to parallel environment list',
        'root@master added "@allhosts" to host group list',
        'root@master removed "w1" from configuration list',
        'root@master changed state of "main.q@w1" (disabled)',
        'root@master changed state of "main.q@w1" (enabled)',
        "master added to submit host list",
        "modified hold of job 1",
        "modified hold of job-array task 13.6",
        "modified context of job 3",
        "root has registered the job 1 for deletion",
        "root has registered the job-array task 2.2 for deletion",
        "root has deleted job 11",
        "root has deleted job-array task 2.1",
        "root has deleted job-array tasks 1-3:1 of job 13",
        "root forced the deletion of job 1",
        "Pushed rescheduling of job 4 on host w1",
        "Forced rescheduling of job-array task 2.1 on host w1",
    ),
    Meaning.ALREADY: (
        'exechost "w1" already exists',
        'host group "@allhosts" already exists',
        'parallel environment "local" already exists',
        'cluster queue "main.q" already exists',
        'submithost "master" already exists',
        'No modification because "w1" already exists in "hostlist" of "hostgroup"',
        '"w1" does not exist in "hostlist" of "hostgroup"',
        'Attribute name ("slots") and/or value ("w1") not found',
        'Queue instance "main.q@w1" is already in the specified state: disabled',
        "job 1 is already in deletion",
    ),
    Meaning.ABSENT: (
        'denied: execution host "w1" does not exist',
        'denied: exechost "w2" does not exist',
        'denied: submit host "w1" does not exist',
        'denied: administrative host "w1" does not exist',
        'denied: cluster queue "main.q" does not exist',
        'denied: host group "@nope" does not exist',
        'error: Cluster queue entry "main.q" does not exist',
        'invalid queue "*@w1"',
        'invalid queue or job "99"',
        'denied: job "99" does not exist',
        'job "13" task "77" does not exist',
        '"w1" is not an execution host',
    ),
    Meaning.REFUSED: (
        'Host object "w1" is still referenced in cluster queue "main.q".',
        'Host object "w1" is still referenced in host group "@allhosts".',
        "denied: 3 slots are already reserved in main.q@w1 by an advance reservation",
        'denied: attribute "sloots" is not a complex attribute',
        'can\'t resolve hostname "unresolvable"',
        'unable to resolve host "unresolvable"',
        'Parallel environment "nope" does not exist',
        'error: required attribute "seq_no" is missing',
        'error: error opening file "f/h" for reading: No such file or directory',
        'denied: host "w1" is neither submit nor admin host',
        "The job-array task 2.1 is running in queue none where jobs are not rerunable.",
        "The job 1 is not restartable",
        'denied: "games" must be manager for this operation',
        'games - you have no permission to modify queue "main.q@w1"',
    ),
    Meaning.UNREACHABLE: (
        "error: commlib error: got select error (Connection refused)",
        'unable to send message to qmaster using port 16999 on host "master": got send error',
        'error: SGE_ROOT directory "/nope" doesn\'t exist',
        'error: unable to read qmaster name: qmaster hostname in "/var/lib/gridengine/default/common/act_qmaster" '
        "has zero length",
    ),
    Meaning.NOTE: ('Unable to find "h_vmem" in "complex_values" of "exechost" - Adding new element.',),
}


@pytest.mark.parametrize(("line", "means"), [(line, means) for means, lines in RECORDED.items() for line in lines])
def test_every_recorded_message_has_its_meaning(line: str, means: Meaning) -> None:
    assert meaning(line) is means


@pytest.mark.parametrize(
    ("line", "job"),
    (
        ("modified hold of job 12", "12"),
        ("modified hold of job-array task 13.6", "13.6"),
        ('denied: job "99" does not exist', "99"),
        ('job "13" task "77" does not exist', "13.77"),
        ('invalid queue or job "99"', "99"),
        ("root has deleted job-array tasks 1-3:1 of job 13", "13"),
        ("The job-array task 2.1 is running in queue none where jobs are not rerunable.", "2.1"),
        ("The job 3 is running in queue none where jobs are not rerunable.", "3"),
        ("root has registered the job 1 for deletion", "1"),
        ('denied: host "w1" is not a submit host', None),
    ),
)
def test_the_job_that_a_message_names_is_found(line: str, job: str | None) -> None:
    assert job_named(line) == job
