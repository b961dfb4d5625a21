"""The report of a soak: what ran, what broke, what was checked, with figures and one picture."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.soak import meters
from tests.soak.faults import FULL, JUMP, KILL, RESTART, Happening
from tests.soak.studies import MODELS
from voxpop.report.drawing import BLUE, GREEN, INK, MUTED, ORANGE, SKY, png, sheet, styled

if TYPE_CHECKING:
    from tests.soak.soak import Soak

COLOURS = {"coordinator 1": BLUE, "coordinator 2": SKY, "shuffler": ORANGE, "PostgreSQL": GREEN}
WRAPPER = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False)
ROWS = {KILL: "kills", RESTART: "PostgreSQL restarts", FULL: "full disks", JUMP: "clock jumps"}


PAGE = """\
# A soak of the service

`make soak` runs the service while things break, and checks that nothing is lost, released twice or leaked. This is
the report of `python -m tests.soak --minutes {minutes:g} --kills {kills} --seed {seed}` on two cores. {verdict}

{faults}

{studies} studies at a time with {devices:,} devices each ({all_studies} studies and {all_devices:,} devices in all)
ran on one PostgreSQL with two coordinators and a shuffler (SQLite), in processes that talk over HTTP. A wave of a
private study asks at least {floor} people, who have {deadline:g} s to answer. {in_files:.0%} of the devices are
closed after every check-in, with their memory in a file; {absent:.1%} never check in.

![Memory, descriptors, acknowledged reports and faults over time](soak.png)

## What broke

- {kills} kills (SIGKILL) at random moments: {killed}. {failed} restarts failed and were repeated.
- {cut:.0%} of all replies, lost after the server had sent them.
- PostgreSQL restarted: {fast} fast, {immediate} immediate (with crash recovery), {revived} after a full disk had ended
  it.
- Full disks: {disks}.
- {jumps} jumps of the services' time of day, {sizes}. The clocks of the database and of durations did not jump.

## What was checked

| trust model | studies | finished | waves released | reports released | told counted | confirmed later |
|---|---:|---:|---:|---:|---:|---:|
{rows}

- **Acknowledged is counted**: a released wave holds the reports whose devices were told that they were counted, and
  those whose last reply was lost but which the database has ("confirmed later"); those of waves that were open at the
  end are all stored. {late:,} reports came too late; their devices were told so, and no release holds them.
- **Nothing is released twice**: every log has each wave once, opened and then closed, and its past never changed. Each
  person took part at most once, and every device made at most one report.
- **The plans are the simulator's**: replaying the reports gives the same plans in all {waves:,} waves and the same
  state to the last bit (none, local, shuffle, aggregate), or to as much as noise allows (central).
- **Nothing got stuck or crashed**: no study stood still for {patience:g} s, no log has a traceback, no service ended by
  itself, and no reply had status 500. Devices received the statuses {statuses}.

## Memory and descriptors

{memory}

## What the services logged

{said}
"""


def write_report(soak: Soak, folder: Path) -> None:
    """Write soak.md and soak.png."""
    with styled():
        (folder / "soak.png").write_bytes(png(picture(soak)))
    (folder / "soak.md").write_text(page(soak), encoding="utf-8")


def page(soak: Soak) -> str:
    """Write the report in Markdown."""
    accounts, scale = list(soak.accounts.values()), soak.scale
    mine = [[one for one in accounts if one.kind.model == model] for model in MODELS]
    wrong = [f"- **{sentence}**" for sentence in soak.faults]
    text = PAGE.format(
        minutes=scale.seconds / 60,
        seed=soak.seed,
        verdict="Nothing was wrong." if not wrong else f"Wrong ({len(wrong)}):",
        faults="\n".join(wrong),
        all_studies=len(accounts),
        all_devices=sum(account.registered for account in accounts),
        rows="\n".join(map(row, (*MODELS, "all"), (*mine, accounts))),
        late=sum(account.late for account in accounts),
        waves=sum(account.waves for account in accounts),
        statuses=listed(soak.statuses),
        memory="\n".join(grown(soak)),
        said=listed(sum(soak.said.values(), Counter())) + ".",
        **{name: value for name, value in asdict(scale).items() if name not in ("kills", "jumps")},
        **broken(soak),
    )
    blocks = re.sub(r"\n{3,}", "\n\n", text).split("\n\n")
    return "\n\n".join(block if block.startswith(("|", "#", "!")) else wrapped(block) for block in blocks) + "\n"


def wrapped(block: str) -> str:
    """Wrap a paragraph or a list at the width of the other pages."""
    found = []
    for item in re.split(r"\n(?=- )", block.strip()):
        WRAPPER.subsequent_indent = "  " if item.startswith("- ") else ""
        found.append(WRAPPER.fill(" ".join(item.split())))
    return "\n".join(found)


def broken(soak: Soak) -> dict[str, Any]:
    """Return figures of the faults that were made."""
    done = soak.breaker.done
    ways = Counter(one.what for one in done if one.kind == RESTART)
    full = Counter(one.what for one in done if one.kind == FULL)
    jumps = sorted(one.size for one in done if one.kind == JUMP)
    each = f"for {soak.scale.full:g} s each, in which {len(soak.breaker.not_ready)} questions for readiness were denied"
    nothing = "not done, because small file systems could not be mounted (which needs root)"
    return {
        "kills": sum(one.kind == KILL for one in done),
        "killed": ", ".join(f"{service.name} {service.kills}" for service in soak.services),
        "failed": sum(service.failed_starts for service in soak.services),
        "fast": ways["fast"],
        "immediate": ways["immediate"],
        "revived": soak.breaker.revived,
        "disks": f"{listed(full)}, {each}" if full else nothing,
        "jumps": len(jumps),
        "sizes": f"from {jumps[0]:.0f} to {jumps[-1]:+.0f} s" if jumps else "none",
    }


def row(name: str, accounts: list[Any]) -> str:
    """Write a row of the table of studies."""
    released = sum(e.body["feedback"]["count"] for a in accounts for e in a.log if e.kind == "closed")
    figures = (
        len(accounts),
        sum(bool(account.log) and account.log[-1].kind == "finished" for account in accounts),
        sum(account.waves for account in accounts),
        released,
        sum(account.acknowledged for account in accounts),
        sum(account.confirmed for account in accounts),
    )
    return f"| {name} | " + " | ".join(f"{figure:,}" for figure in figures) + " |"


def listed(said: Counter[str]) -> str:
    """List how often each thing was said or done, the most frequent first."""
    return ", ".join(f"{name} ({many:,})" for name, many in said.most_common()) or "nothing"


SPELLS = """\
Medians in two spells in which only replies were lost, minutes {0:.0f} to {1:.0f} and {2:.0f} to {3:.0f}, from {4:g} s
after the services were started anew. Later medians may be {5:.0%} larger (descriptors: {6:.0%} and {7}). PostgreSQL is
all its processes together, without the cache of pages that they share.
"""


def grown(soak: Soak) -> list[str]:
    """Compare early and late memory and descriptors."""
    growth = soak.growth()
    if not growth:
        return ["The soak was too short to compare."]
    minutes = [moment / 60 for spell in soak.scale.calm for moment in spell]
    return [
        SPELLS.format(*minutes, meters.SETTLED, meters.MORE - 1, meters.MORE_DESCRIPTORS - 1, meters.FEW),
        "| process | MB, early | MB, late | descriptors, early | descriptors, late |",
        "|---|---:|---:|---:|---:|",
        *[
            f"| {one.name} | {one.early[0]:.0f} | {one.late[0]:.0f} | {one.early[1]:.0f} | {one.late[1]:.0f} |"
            for one in growth
        ],
    ]


def picture(soak: Soak) -> Any:
    """Draw memory, descriptors, acknowledged reports and faults over the same minutes."""
    made = sheet(10, 9)
    memory, descriptors, reports, faults = made.subplots(4, 1, sharex=True, height_ratios=[3, 3, 3, 2])
    for name, readings in soak.meters.readings.items():
        at, colour = [one.at / 60 for one in readings], COLOURS.get(name, MUTED)  # devices are grey
        memory.plot(at, [one.megabytes for one in readings], color=colour, label=name, lw=1)
        descriptors.plot(at, [one.descriptors for one in readings], color=colour, lw=1)
    for axes in (memory, descriptors):
        axes.set_yscale("log")
    memory.set_ylabel("memory in MB")
    memory.legend(ncols=6, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    descriptors.set_ylabel("open descriptors")
    reports.plot([at / 60 for at, _ in soak.acknowledged], [many for _, many in soak.acknowledged], color=INK)
    reports.set_ylabel("reports acknowledged")
    draw_faults(faults, soak.breaker.done)
    faults.set_xlabel("minutes")
    for axes in (memory, descriptors, reports, faults):
        for start, end in soak.scale.calm:
            axes.axvspan(start / 60, end / 60, color=SKY, alpha=0.25, lw=0)
    return made


def draw_faults(axes: Any, done: list[Happening]) -> None:
    """Draw a row of marks for each kind of fault, those of clocks with their sign."""
    for height, kind in enumerate(reversed(ROWS)):
        mine = [one for one in done if one.kind == kind]
        colours = [ORANGE if one.size < 0 else INK for one in mine]
        axes.scatter([one.at / 60 for one in mine], [height] * len(mine), marker="|", s=90, c=colours, lw=1)
    axes.set_yticks(range(len(ROWS)), list(reversed(ROWS.values())))
    axes.set_ylim(-0.6, len(ROWS) - 0.4)
