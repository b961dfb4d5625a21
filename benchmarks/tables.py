"""Print tables of the documentation as Markdown: a row for each setting, as soon as its seeds have run.

trust        what privacy costs in every trust model: the synthetic study at T = 10^6, delta = 1e-6, alpha = 0.7
shuffle      what the shuffle protocol costs and protects, with 50 arms and delta = 1e-6
pilot        what protecting a pilot costs: the errors of the fitted constants with and without it
calibration  how well a pilot's constants describe people who are not Gaussian, against the truth
rehearsals   what two rehearsals foretell of a study, and what the study then takes
shocks       what shocks that all people share, or a drift of f, do to a one-sided statement of a wave
certificates what the default certifies and costs in named studies, in the open and with privacy
weather      the same in calm weather and under shocks of several sizes and kinds, in pilot and waves alike
robustness   how often what `waves` certify is false: with nothing to spare, and with people who break assumptions
guardrails   how often guardrails break, how tight what is certified of them is, and what they cost
safe         the same of trials that may lose so much against today's decision
census       people who answer in every wave: what 60 stores lose and certify, and how often statements are false
blocks       how often a statement about two arms of a wave in blocks is false, whatever rounds do to everybody alike
aged         what certificates are worth in a world that moves
own-data     what voxpop finds from a till's table, beside Thompson sampling in plain pandas
liars        what share of the people must agree on a lie to move a decision to where they like, in every trust model

All seeds of `robustness` take a quarter of an hour on one core, those of most others at most a few minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from inspect import signature

from benchmarks import calibration, census, certificates, guardrails, liars, own_data, privacy, robustness, weather

Table = Callable[..., Iterator[tuple[object, ...]]]  # yields the headings, and then rows
TABLES: dict[str, tuple[Table, ...]] = {
    "trust": (privacy.trust,),
    "shuffle": (privacy.costs, privacy.single_reports, privacy.alone, privacy.honest_shares, privacy.several),
    "pilot": (calibration.protected_pilot,),
    "calibration": (calibration.calibration,),
    "rehearsals": (calibration.rehearsals,),
    "shocks": (robustness.shocks,),
    "certificates": (certificates.certificates,),
    "weather": (certificates.weather,),
    "robustness": (robustness.robustness,),
    "guardrails": (guardrails.guarded,),
    "safe": (guardrails.safe,),
    "census": (census.stores, census.statements),
    "blocks": (weather.kinds, weather.people, weather.multiplied),
    "aged": (weather.aged,),
    "own-data": (own_data.rows,),
    "liars": (liars.one_wave, liars.studies),
}


def show(table: Table, **chosen: object) -> None:
    """Print a table, with what was chosen of its options."""
    known = signature(table).parameters
    given = {name: value for name, value in chosen.items() if value is not None and name in known}
    for number, cells in enumerate(table(**given)):
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        if number == 0:
            print("|---|" + "---:|" * (len(cells) - 1))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=TABLES, metavar="NAME", help="which table, by its name above")
    parser.add_argument("--seeds", type=int, help="how many, from the first on")
    parser.add_argument("--others", type=int, help="how many of them guardrails also runs otherwise, to compare")
    parser.add_argument("--runs", type=int, help="of each row of census's statements, blocks and aged")
    parser.add_argument("--first", type=int, help="the first seed of certificates and weather; 0 unless given")
    parser.add_argument("--case", nargs="+", help="run the cases of robustness whose name contains one of these")
    parser.add_argument("--study", nargs="+", help="the studies of certificates, weather and guardrails, by name")
    parser.add_argument(
        "--shocks", nargs="*", type=float, help="the sizes of weather's shocks, as shares of the range of f"
    )
    parser.add_argument(
        "--freedom", type=float, help="know the size of weather's shocks with so many degrees of freedom"
    )
    parser.add_argument("--privacy", help="the trust model of certificates")
    parser.add_argument("--epsilon", nargs="*", type=float, help="what certificates and guardrails promise")
    parser.add_argument("--tolerance", type=float, help="a tolerance, as a share of the range of f")
    chosen = vars(parser.parse_args())
    for name in chosen.pop("names"):
        for table in TABLES[name]:
            show(table, **chosen)


if __name__ == "__main__":
    main()
