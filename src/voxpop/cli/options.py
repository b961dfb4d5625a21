"""Options that commands share, as frozen dataclasses: a command's own options are the fields of one that derives.

What a policy and a trust model can be told comes from the table of options (`voxpop.model.options`), so that a setting
that is added there is an option here. Annotations are evaluated, because classes of other modules inherit them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from voxpop.cli.display import progress
from voxpop.errors import InputError, one_of, require_number
from voxpop.io.columns import Roles
from voxpop.model.options import Option, options_of
from voxpop.policies import DEFAULT, policy_options
from voxpop.privacy import RELEASES, NoPrivacy, Private
from voxpop.runtime.extensions import find
from voxpop.simulation.rehearsals import OwnPeople, Rehearsal
from voxpop.simulation.runs import AnyTrial, Run, Scenario, run_together
from voxpop.simulation.scenarios import PEOPLE, SCENARIOS
from voxpop.simulation.sweep import Backend, Result, SweepResult, sweep
from voxpop.simulation.trials import Trial
from voxpop.simulation.weather import Weather

# Privacy

TRUST = {one.name: one for one in options_of(Private)}
MODELS = one_of([NoPrivacy.model, *RELEASES])
PrivacyOption = Annotated[str, typer.Option("--privacy", help=f"Whom people trust: {MODELS}.")]
EpsilonOption = Annotated[float | None, typer.Option(help=TRUST["epsilon"].help)]
DeltaOption = Annotated[float, typer.Option(help=TRUST["delta"].help)]
AnyPrivacyOption = Annotated[
    str | None, typer.Option(help=f"Whom people trust: {MODELS}; central if only --epsilon is given.")
]

# What the columns of a table are

Names = list[str] | None
COLUMNS = {
    "person": "The column of the people, if it is not called person or user.",
    "reward": "The column of the answers, if it is not called reward.",
    "parameter": "Only this column is a parameter; may be repeated.",
    "ignore": "This column is not a parameter; may be repeated.",
    "metric": "This column is another answer, which a guardrail may be about; may be repeated.",
    "choice": "This column holds names, even if they have digits.",
}


def roles_of(parameter: Names, ignore: Names, choice: Names, **others: Any) -> Roles:
    """Return what was said about the columns; the others are round, person, reward and wide."""
    return Roles(tuple(parameter or ()), tuple(ignore or ()), tuple(choice or ()), **others)


# Who answers in a simulation, and when it stops asking

WHO = "Your own people, in a CSV file"
FILE = "The file: a row for each person and decision or, with --formula, for each person"
StudyArgument = Annotated[
    str | None, typer.Argument(help=f"One of {', '.join(SCENARIOS)}, or a study file; none for your own people.")
]
Text = str | None


def _who(text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=WHO)


def from_table(name: str, options: Sequence[Option]) -> Any:
    """Make a dataclass whose fields are options of the table, each None unless given."""
    made = [
        (one.name, Annotated[one.kind | None, typer.Option(help=one.help, rich_help_panel=one.panel or None)], None)
        for one in options
    ]
    return make_dataclass(name, made, frozen=True, kw_only=True)


WEATHER = [replace(one, name=one.called or one.name) for one in options_of(Weather)]
_Shocks = from_table("_Shocks", WEATHER)


@dataclass(frozen=True, kw_only=True)
class People(_Shocks):  # type: ignore[misc, valid-type]
    """Who answers, and in what weather: the people of a study, one's own, or a pilot's; and what they are promised."""

    seed: Annotated[int, typer.Option(help="The seed of the first run.")] = 0
    privacy: AnyPrivacyOption = None
    epsilon: EpsilonOption = None
    delta: DeltaOption = Private.delta
    resample: Annotated[
        Path | None,
        typer.Option(
            help="The pilot (CSV) behind the study file: its own people, drawn again, answer in the rehearsal."
        ),
    ] = None
    population: Annotated[Text, _who(f"{FILE}. Nobody is asked twice, unless --who says so.")] = None
    formula: Annotated[
        Text, _who("What a person gains, from columns and parameters: '(price - 1.5) * (wtp >= price)'.")
    ] = None
    grid: Annotated[Names, _who("The values of each parameter of the formula: price=2:12:101, or plan=basic,plus.")] = (
        None
    )
    noise: Annotated[
        float | None, _who("How much one round of one person varies, in units of reward; 0 unless given.")
    ] = None
    pilot_people: Annotated[
        int | None, _who(f"The people who take part in the pilot; {PEOPLE}, or half of them if they are few.")
    ] = None
    parameter: Annotated[Names, _who(COLUMNS["parameter"], "NAME")] = None
    ignore: Annotated[Names, _who(COLUMNS["ignore"], "NAME")] = None
    choice: Annotated[Names, _who(COLUMNS["choice"], "NAME")] = None
    person: Annotated[Text, _who(COLUMNS["person"], "NAME")] = None
    reward: Annotated[Text, _who(COLUMNS["reward"], "NAME")] = None

    @property
    def file(self) -> str | None:
        """The file of one's own people."""
        return self.population

    @property
    def model(self) -> str | None:
        """The trust model: central if only an epsilon is given, None if nothing was said."""
        return self.privacy or (None if self.epsilon is None else "central")

    def own_people(self) -> OwnPeople | None:
        """Return one's own people, or None without a file; refuse options that are about them."""
        if self.file is not None:
            roles = roles_of(self.parameter, self.ignore, self.choice, person=self.person, reward=self.reward)
            return OwnPeople(
                self.file, self.formula, tuple(self.grid or ()), self.noise or 0.0, self.pilot_people, roles
            )
        for name in ("formula", "grid", "noise", "pilot_people", *COLUMNS):
            if getattr(self, name, None) not in (None, []):
                flag = name.replace("_", "-")
                raise InputError(f"--{flag} is about your own people; add --population people.csv, or leave it out")
        return None

    def trial(
        self,
        named: str | None,
        study: str | None,
        policy: str = "",
        horizon: int | None = None,
        settings: Mapping[str, Any] | None = None,
        own: Mapping[str, Any] | None = None,
    ) -> Trial | Rehearsal:
        """Describe one run: of a named study, with its own options, or a rehearsal of a study file or of people."""
        given, chosen = own or {}, tuple(sorted((settings or {}).items()))
        promised: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "settings": chosen}
        promised |= {one.name: getattr(self, one.name) or one.default for one in WEATHER}
        if named is not None:
            trust = self.model or NoPrivacy.model
            return Trial(named, policy or DEFAULT, self.seed, horizon, privacy=trust, **promised, **given)
        if given:
            raise InputError(f"--{next(iter(given)).replace('_', '-')} is for the built-in studies; leave it out")
        again = None if self.resample is None else str(self.resample)
        people = self.own_people()
        return Rehearsal(study, policy, self.seed, horizon, self.model, people=people, resample=again, **promised)

    def built_in(self, study: str | None) -> str | None:
        """Return the name of a built-in study, or None for a study file and for one's own people alone."""
        people = self.own_people()
        if study is None:
            if people is None:
                known = ", ".join(SCENARIOS)
                raise InputError(f"name a study ({known}) or a study file, or give people with --population people.csv")
            return None
        if study not in SCENARIOS and (study.endswith(".toml") or Path(study).exists()):
            return None
        find("study", study, SCENARIOS)
        for option, file in {"population": people and people.path, "resample": self.resample}.items():
            if file is not None:
                raise InputError(f"the study {study!r} has its own people; leave out its name, or --{option} {file}")
        return study


STOPPING = [one for one in policy_options(DEFAULT) if one.panel and one.name != "delta"]
_Limits = from_table("_Limits", STOPPING)


@dataclass(frozen=True, kw_only=True)
class Stops(_Limits):  # type: ignore[misc, valid-type]
    """When to stop asking: every option of the default policy that the table offers."""

    confidence: Annotated[
        float | None,
        typer.Option(help="How sure to be of what is certified; 0.95 unless given.", rich_help_panel=STOPPING[0].panel),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the settings of the policy that were given; its delta is what is left of the confidence."""
        given = {one.name: getattr(self, one.name) for one in STOPPING}
        if self.confidence is not None:
            given["delta"] = round(1 - require_number("confidence", self.confidence, above=0, below=1), 12)
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Stopping(Stops, People):
    """The same for simulated people, whose number may be given in place of a file."""

    population: Annotated[Text, _who(f"{FILE}; or just the number of people there are, as --who says.")] = None

    @property
    def file(self) -> str | None:
        """The file of one's own people, unless --population is their number."""
        return None if isinstance(self._number, int) else self.population

    @property
    def _number(self) -> int | None:
        try:
            return None if self.population is None else int(self.population)
        except ValueError:
            return None

    def settings(self) -> dict[str, Any]:
        """Return the settings of the policy that were given, with the number of people."""
        given = {**super().settings(), "population": self._number}
        return {name: value for name, value in given.items() if value is not None}


# Many runs

WORTHWHILE = 4.0  # seconds of work from which starting worker processes pays off

BackendOption = Annotated[
    str, typer.Option(help="Where to compute: local, or an installed cluster backend such as dask.")
]
AddressOption = Annotated[str | None, typer.Option(help="The scheduler of the cluster, such as tcp://HOST:8786.")]
JobsOption = Annotated[int | None, typer.Option(help="Processes on this machine; all cores unless given.")]
DataOption = Annotated[
    Path | None, typer.Option(help="A folder of light-sensor readings, to use instead of the shipped figures.")
]


def run_all(
    keep: Callable[[Run], Result], trials: Sequence[AnyTrial], where: Backend, scenario: Scenario | None = None
) -> dict[AnyTrial, Result]:
    """Do every run with a progress bar, those of a seed together, on one scenario, and those of the first seed here.

    A bad choice shows in the first run, and is reported at once. The first seed's scenario may be at hand.
    """
    first, *others = (list(group) for _, group in groupby(trials, key=attrgetter("seed")))
    begin, scenario = perf_counter(), scenario or trials[0].scenario()
    results = {trials[0]: keep(trials[0].run(scenario=scenario))}
    with progress(len(trials), "runs") as (bar, task):
        bar.advance(task)

        def take(found: list[SweepResult[AnyTrial, Result]]) -> None:
            for done in found:
                if done.result is None:
                    trial = done.item
                    raise InputError(f"the run of policy {trial.policy!r} with seed {trial.seed} failed: {done.error}")
                results[done.item] = done.result
                bar.advance(task)

        take(run_together(first[1:], keep, scenario))
        if where == Backend() and (perf_counter() - begin) * (1 + len(others)) < WORTHWHILE:
            where = Backend(jobs=1)
        for group in sweep(partial(run_together, keep=keep), others, where):
            take([SweepResult(group.item[0], error=group.error)] if group.result is None else group.result)
    return results
