"""The story of one thing, from its begin to its end: a job from `qsub` on, a worker from its order on, or a launch."""

from __future__ import annotations

from typing import Any

from autoscaler.page.views.looking import Looking, Shown
from autoscaler.report.subjects import lines_of


def story(looking: Looking) -> Shown:
    subject = looking.text("subject")
    if not subject:
        text = "the address names no job, worker or launch: choose one in Jobs or Workers"
        return Shown("trouble.html", "Nothing is named", "", {"text": text}, 400, live=False)
    document: Any = looking.document("explain", {"subject": subject})
    job = document.get("job")
    path = "jobs" if job else "workers"
    title = (
        f"Job {job}" if job else f"Launch {subject}" if "order" in document else str(document.get("host") or subject)
    )
    values = {
        "subject": subject,
        "document": document,
        "lines": lines_of(document),
        "job": job,
        "events": _events(document),
        "worker": None if job or "order" in document else document.get("host") or document.get("id"),
        "acts": looking.viewer.acts() and not job and document.get("machine") is not None,
    }
    return Shown("story.html", title, path, values)


def _events(document: Any) -> list[dict[str, Any]]:
    """What happened, oldest first: its events, and the ends that accounting knows."""
    found = [{"at": one["at"], "text": one["text"], "worker": one["worker_id"]} for one in document.get("events") or ()]
    return sorted(found, key=lambda one: str(one["at"]))
