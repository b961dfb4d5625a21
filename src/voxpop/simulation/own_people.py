"""Studies of the caller's own people, who stand in a CSV file.

Either the file has one row for each person and decision, with the person's mean reward; or it has one row for each
person, and a formula says what a person gains from a decision.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, require_number, said_of
from voxpop.io.columns import Roles
from voxpop.io.pilots import ReleasedPilot
from voxpop.io.tables import read_people, read_pilot_table
from voxpop.model.decisions import Choice, Decisions, Float, Parameter, Space
from voxpop.simulation.formula import Formula
from voxpop.simulation.people import TablePeople
from voxpop.simulation.runs import Scenario
from voxpop.simulation.scenarios import PEOPLE, piloted

HORIZON = 20_000  # rounds, unless said otherwise
MOST_REWARDS = 20_000_000  # people times decisions: 160 megabytes
MOST_DECISIONS = 1_000_000


@dataclass(frozen=True)
class OwnPeople:
    r"""People in a CSV file, and how to find out what they gain; plain data, so that it can be sent to a worker.

    >>> import tempfile
    >>> from voxpop import simulate
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("\n".join(["person,wtp", *(f"u{wtp},{wtp / 100}" for wtp in range(200, 900, 5))]))
    >>> shoppers = OwnPeople(str(file), "(price - 1.5) * (wtp >= price)", ("price=2:9:29",))
    >>> simulate(shoppers.scenario(seed=0)).loss < 0.2
    True
    """

    path: str
    formula: str | None = None  # of the columns of the file and the parameters
    grid: tuple[str, ...] = ()  # the values of each parameter of the formula, such as price=2:12:101
    noise_std: float = 0.0  # of one round
    pilot_people: int | None = None  # 40 unless given, or half of the people if there are few
    roles: Roles = field(default_factory=Roles)  # of the columns of a table, as for a pilot

    def scenario(self, seed: int = 0, horizon: int | None = None) -> Scenario:
        """Make a study that knows nothing in advance and begins with a pilot among these people."""
        space, decisions, people = self.gather()
        count = min(PEOPLE, len(people) // 2) if self.pilot_people is None else self.pilot_people
        rounds = HORIZON if horizon is None else horizon
        with said_of(self.path):
            return piloted(Path(self.path).stem, space, decisions, people, people.mean, rounds, seed, people=count)

    def gather(
        self, space: Space | None = None, decisions: Decisions | None = None
    ) -> tuple[Space, Decisions, TablePeople]:
        """Return the parameters, the decisions and the people.

        A study gives its parameters and decisions. A table has decisions of its own, of which only the scale is
        the study's: nobody knows what people would have gained between them.
        """
        require_number("noise", self.noise_std, least=0)
        if self.formula is None:
            if self.grid:
                raise InputError("--grid says where a formula is computed; add --formula, or leave --grid out")
            space, decisions, rewards = _of_table(Path(self.path), space, self.roles)
        elif space is not None and decisions is not None:
            if self.grid:
                raise InputError("the study file names the decisions; leave --grid out")
            rewards = rewards_of_formula(Path(self.path), self.formula, decisions)
        else:
            space, decisions = _of_grid(self.grid)
            rewards = rewards_of_formula(Path(self.path), self.formula, decisions)
        if len(rewards) < 2:
            raise InputError(f"{self.path} has one person; a population needs at least two, and hundreds work well")
        return space, decisions, TablePeople(rewards, self.noise_std)


def _of_table(path: Path, space: Space | None, roles: Roles) -> tuple[Space, Decisions, Array]:
    """Read one row for each person and decision; return the rewards, of shape (people, decisions)."""
    ReleasedPilot(path).require_none()
    table = read_pilot_table(path, roles=roles if space is None else roles_in(space))
    pilot, decisions = table.pilot, table.pilot.decisions
    rewards = np.full((len(table.people), len(decisions)), np.nan)
    rewards[pilot.people, pilot.actions] = pilot.averages
    missing = np.argwhere(np.isnan(rewards))
    if len(missing):
        person, action = missing[0].tolist()
        raise InputError(
            f"{path}: person {table.people[person]} has no reward for {decisions[action]}; add the row, or leave out "
            "the person or the decision"
        )
    return (table.space, decisions, rewards) if space is None else (space, in_space(path, decisions, space), rewards)


def roles_in(space: Space) -> Roles:
    """Say which columns of a table are the parameters of a study, and which of them hold names."""
    choices = [name for name, parameter in space.parameters.items() if isinstance(parameter, Choice)]
    return Roles(parameters=tuple(space.parameters), choices=tuple(choices))


def in_space(path: Path, decisions: Decisions, space: Space) -> Decisions:
    """Return the decisions of a table, scaled as the parameters of a study are."""
    labels = decisions.labels or ()
    with said_of(path):
        return Decisions([space.scale(label) for label in labels], labels)


def rewards_of_formula(path: Path, text: str, decisions: Decisions) -> Array:
    """Compute the formula for every person and decision; return the rewards, of shape (people, decisions)."""
    formula = Formula(text)
    labels: Sequence[Any] = decisions.labels or ()
    names = list(labels[0])
    known, columns = read_people(path, formula.names)
    named = columns.get("person", ())
    if len(set(named)) < len(named):
        twice = next(person for person, count in Counter(named).items() if count > 1)
        raise InputError(f"{path} has several rows of {twice}, and a formula takes one row for each person; merge them")
    formula.require_names([*known, *names])
    for kind, some in (("column of " + str(path), known), ("parameter", names)):
        if not set(formula.names) & set(some):
            raise InputError(f"{formula} names no {kind}; it can name {', '.join(some)}")
    people = len(next(iter(columns.values())))
    twice = [name for name in names if name in known]
    if twice:
        raise InputError(f"{path} has a column {twice[0]}, and {twice[0]} is a parameter too; rename one of them")
    if people * len(decisions) > MOST_REWARDS:
        raise InputError(
            f"{path} has {people:,} people, and for {len(decisions):,} decisions that is more than "
            f"{MOST_REWARDS:,} rewards; take a random sample of the people, or fewer decisions"
        )
    own = {name: np.array(cells)[:, None] for name, cells in columns.items()}
    tried = {name: _values([label[name] for label in labels])[None, :] for name in names}
    rewards = np.broadcast_to(formula({**own, **tried}), (people, len(decisions)))
    odd = np.argwhere(~np.isfinite(rewards))
    if len(odd):
        row, action = odd[0].tolist()
        who = {name: cells[row] for name, cells in columns.items()}
        raise InputError(
            f"{path}: {formula} gives {rewards[row, action]} for {labels[action]} and the person {who}; "
            "look for a division by zero, or a logarithm, root or power that does not exist"
        )
    return np.array(rewards)


def _values(cells: Sequence[Any]) -> Any:
    """Return the values of a parameter as numbers, or as words."""
    return np.array(cells if any(isinstance(cell, str) for cell in cells) else [float(cell) for cell in cells])


def _of_grid(texts: Sequence[str]) -> tuple[Space, Decisions]:
    """Make the decisions of which each parameter takes the values that are said.

    >>> space, decisions = _of_grid(["price=1:3:3", "plan=basic,plus"])
    >>> len(decisions), decisions[1]
    (6, {'price': 1.0, 'plan': 'plus'})
    """
    if not texts:
        raise InputError("a formula needs the decisions to compute it for; add --grid price=2:12:101, or a study file")
    parameters: dict[str, Parameter] = {}
    values: list[list[Any]] = []
    for text in texts:
        name, _, said = (part.strip() for part in text.partition("="))
        if not name.isidentifier() or not said or name in parameters:
            raise InputError(f"--grid takes a name and its values, each once, such as price=2:12:101, got {text!r}")
        with said_of(f"--grid {text}"):
            parameters[name], some = _parameter(said)
        values.append(some)
    size = math.prod(map(len, values))
    if size > MOST_DECISIONS:
        raise InputError(f"--grid gives {size:,} decisions, and there may be {MOST_DECISIONS:,}; give fewer values")
    space = Space(parameters)
    labels = [dict(zip(parameters, row, strict=True)) for row in product(*values)]
    return space, Decisions([space.scale(label) for label in labels], labels)


def _parameter(said: str) -> tuple[Parameter, list[Any]]:
    """Read low:high:count, or values with commas; numbers become a range, and words a choice."""
    cells = [cell.strip() for cell in said.split(":" if ":" in said else ",")]
    numbers = [number for number in map(_number, cells) if number is not None]
    if ":" in said:
        if len(cells) != 3 or len(numbers) != 3 or numbers[2] != round(numbers[2]) or not 2 <= numbers[2] <= 10**6:
            raise InputError("write low:high:count, such as 2:12:101, with a count of at least 2")
        made = Float(numbers[0], numbers[1])
        return made, made.values(round(numbers[2]))
    if not numbers and all(cells):
        return Choice(tuple(cells)), cells
    if len(numbers) < len(cells) or len(set(numbers)) < max(2, len(numbers)):
        raise InputError("write at least two different numbers, such as 2,3,5, or words alone")
    return Float(min(numbers), max(numbers)), sorted(numbers)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
