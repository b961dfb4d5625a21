"""voxpop-dask as if it were installed: its folder is on the path, and so is what its pyproject.toml says of it."""

import os
import tomllib
from collections.abc import Iterator

import pytest

import voxpop_dask
from tests.helpers_cli import ENVIRONMENT, ROOT
from tests.helpers_waiting import HANGING

PROJECT = tomllib.loads((ROOT / "integrations/dask/pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="package", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("installed")
    about = folder / f"voxpop_dask-{PROJECT['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    lines = [line for group, points in PROJECT["entry-points"].items() for line in (f"[{group}]", *said(points))]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setitem(ENVIRONMENT, "PYTHONPATH", os.pathsep.join((str(folder), ENVIRONMENT["PYTHONPATH"])))
        yield


def said(points: dict[str, str]) -> list[str]:
    return [f"{name} = {place}" for name, place in points.items()]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a running cluster enough time to answer, however busy the machine is."""
    monkeypatch.setattr(voxpop_dask, "PATIENCE", HANGING)
