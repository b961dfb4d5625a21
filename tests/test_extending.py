"""The guide to extending voxpop: what its skeletons make is whole; that they run, tests/test_pages.py shows."""

import re
from pathlib import Path

from tests.helpers_cli import ROOT, python

GUIDE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.*)$", GUIDE, re.MULTILINE)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def test_there_is_a_skeleton_of_each() -> None:
    assert SECTIONS == ["A kernel", "A policy", "A population", "A trust model"]
    counts = [section.count("```python\n") for section in re.split("^## ", GUIDE, flags=re.MULTILINE)[1:]]
    assert counts == [1, 1, 2, 1]  # people are a function or a class
    assert len(BLOCKS) == sum(counts)


SAVED = """
import json
from voxpop.client import Promise
from voxpop.io.schema import for_devices, decode_release, encode
from voxpop.service.study.definition import Definition
for model in ("two-agents", "central"):
    study = Study(problem, "one-round", path=f"{model}.json", privacy=Private(model, 5.0))
    question = study.ask()
    study.tell(question.wave, np.zeros((question.people, 49)))
    again = Study.load(f"{model}.json")
    assert again.policy == study.policy and again.privacy == study.privacy
    assert [entry.model for entry in again.ledger.entries] == [model]
    definition = Definition(problem, again.policy, again.privacy)
    assert Definition.decode(json.loads(json.dumps(definition.encode()))).encode() == definition.encode()
    told = for_devices(encode(waves[0][0].release))
    assert decode_release(json.loads(json.dumps(told))).model == "two-agents"
Promise("two-agents", 5.0).check(waves[0][0].release)
"""


def test_what_they_make_is_saved_loaded_and_served(tmp_path: Path) -> None:
    """A kernel, a policy and a trust model of one's own need no further file."""
    done = python("\n".join([*BLOCKS, SAVED]), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
