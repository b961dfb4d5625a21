"""What the services wrote to their logs: nothing unexpected, and what they said about the faults."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path


def read_log(path: Path) -> tuple[list[str], Counter[str]]:
    """Return what should not be in a service's log, and how often each kind of trouble was said."""
    wrong, said = list[str](), Counter[str]()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if "Traceback" in line:
            wrong.append(f"{path.stem} wrote a traceback to its log")
        if not line.startswith("{"):
            said["a sentence at the start"] += 1
            continue
        try:
            found = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote
        event, status = found.get("event"), found.get("status")
        if event == "fault" or status == 500:
            wrong.append(f"{path.stem} failed: {line[:300]}")
        elif event == "request":
            said[f"status {status}"] += 1
        elif "error" in found:
            said[f"{event}: {found['error']}"] += 1
    return wrong, said
