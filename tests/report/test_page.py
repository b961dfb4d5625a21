"""The page: whole without a network, readable by everyone, and without a truth where there is none."""

import re
from html.parser import HTMLParser

import pytest

from tests.report.studies import conducted
from tests.report.test_summary import warned
from voxpop import Float, Space
from voxpop.journal.journal import Course
from voxpop.report.drawing import DARK, LIGHT
from voxpop.report.page import render
from voxpop.simulation.runs import Run
from voxpop.simulation.trials import Trial


@pytest.fixture(scope="module")
def page(waves: Run) -> str:
    return render(waves.course, waves.scenario.f)


@pytest.fixture(scope="module")
def pages(courses: dict[str, Course]) -> dict[str, str]:
    shown = ("paper", "open", "only the pilot", "nothing", "two parameters", "choice")
    return {name: render(courses[name]) for name in shown}


class Elements(HTMLParser):
    """All elements of a page, with their attributes and the text inside them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_loads_nothing_from_outside(pages: dict[str, str]) -> None:
    for page in pages.values():
        elements = Elements(page).found
        assert {tag for tag, _ in elements} & {"script", "link", "img", "iframe", "object"} == set()
        attributes = [pair for _, known in elements for pair in known.items()]
        links = [value for name, value in attributes if name in ("href", "xlink:href", "src")]
        assert all(link.startswith(("#", "data:")) for link in links)
        assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)", page))
        assert "@import" not in page


def test_every_picture_can_be_read_aloud(pages: dict[str, str]) -> None:
    for page in pages.values():
        elements = Elements(page).found
        drawn = [known for tag, known in elements if tag == "svg"]
        assert len(drawn) == page.count("<figure") > 0
        every = [known["id"] for _, known in elements if "id" in known]
        ids = [name for name in every if not re.fullmatch("[mpC][0-9a-f_]+", name)]  # equal shapes have equal names
        assert len(ids) == len(set(ids))
        for known in drawn:
            assert known["role"] == "img"
            assert set(known["aria-labelledby"].split()) <= set(ids)
        for words in re.findall(r"<desc[^>]*>(.*?)</desc>", page):
            assert len(words) > 20


def test_pictures_take_the_colours_of_the_page(page: str) -> None:
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert {colour for part in drawn for colour in re.findall(r"#[0-9a-f]{6}\b", part)} == set()
    used = {name for part in drawn for name in re.findall(r"var\(--(\w+)\)", part)}
    assert used <= LIGHT.keys() == DARK.keys()
    for theme in (LIGHT, DARK):
        assert all(f"--{name}: {colour}" in page for name, colour in theme.items())


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Compute the contrast ratio of WCAG 2.1."""
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_words_and_lines_stand_out(theme: dict[str, str]) -> None:
    for ground in ("paper", "ground"):
        for words in ("ink", "quiet", "blue"):
            assert contrast(theme[words], theme[ground]) >= 4.5
    for lines in ("blue", "orange"):
        assert contrast(theme[lines], theme["paper"]) >= 3
    assert contrast(theme["ink"], theme["sky"]) >= 4.5
    assert contrast(theme["ink"], theme["alert"]) >= 4.5


def test_the_contrast_is_that_of_the_guidelines() -> None:
    """Guards the test above."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_a_conducted_study_speaks_of_no_truth(pages: dict[str, str]) -> None:
    for page in pages.values():
        words = " ".join(Elements(page).text).lower()
        assert [word for word in ("truth", "truly", "simulat", "regret", "made up") if word in words] == []


def test_a_simulation_says_that_it_is_one(page: str) -> None:
    assert "A simulation: nobody was really asked." in page
    assert "simulated truth" in page


def test_the_first_screen_has_the_words_of_the_study_and_no_symbols(pages: dict[str, str], page: str) -> None:
    for found in (*pages.values(), page):
        first = found[found.index("<main>") : found.index("<h2>The study")]
        words = " ".join(Elements(first).text)
        assert re.search(r"σ|sigma|\bv\b|\bB\b|norm|bias_std|kernel", words) is None
    assert "margin in EUR" in pages["two parameters"]
    assert "noise σ: how much one round of one person varies" in page


def test_the_page_shows_the_forecasts_both_figures_and_the_warning(waves: Run) -> None:
    page = render(warned(waves, "the answers vary too much; calibrate again").course)
    said = ["Expected loss", "Certified", "expected gain", "cost of answers", "Wave by wave", "Stopped because"]
    said += ["<strong>Model check:</strong>", "<strong>the answers vary too much; calibrate again</strong>"]
    assert [part for part in said if part not in page] == []
    unwarned = render(warned(waves, "").course)
    assert "<strong>Model check:</strong>" not in unwarned
    assert "the answers fit the model" in unwarned


def test_an_open_study_says_what_is_asked(pages: dict[str, str]) -> None:
    page = pages["open"]
    assert "Do this for now" in page
    assert "wave 2 asks" in page
    assert "Stopped because" not in page


def test_before_anyone_has_answered_nothing_is_claimed(pages: dict[str, str]) -> None:
    page = pages["nothing"]
    assert "Nobody has answered yet, and there was no pilot: this is a start, not a recommendation." in page
    claims = ("Expect<", "Certified<", "Expected loss<", "best so far", "would cost")
    assert [claim for claim in claims if claim in page] == []
    assert "this rests on the pilot of 30 people alone" in pages["only the pilot"]


def test_a_study_that_asks_nobody_can_be_shown() -> None:
    run = Trial("pricing", size=25, horizon=1000, settings={"answer_cost": 1e9}).run()
    assert run.closed == ()
    page = render(run.course, run.scenario.f)
    assert "asking people does not pay" in page
    assert "Nobody was asked; this rests on the pilot of 40 people alone." in page


def test_names_are_written_as_they_are_and_not_as_markup() -> None:
    course = conducted(Space({"a<b & $c$": Float(0, 1)}).grid(9), told=0)
    page = render(course.named("<b>x</b>", "<i>money</i> in $ or $"))
    assert {tag for tag, _ in Elements(page).found} & {"b", "i"} == set()
    assert "a&lt;b &amp; $c$" in page


def test_the_page_is_the_same_every_time(waves: Run, page: str) -> None:
    assert render(waves.course, waves.scenario.f) == page
