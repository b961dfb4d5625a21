"""The site of the documentation: it builds without a warning, links lead somewhere, and nothing comes from outside."""

import doctest
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import voxpop
from tests.helpers_cli import ENVIRONMENT, ROOT
from tests.helpers_waiting import HANGING
from voxpop.model.kernels import Kernel
from voxpop.privacy import Private

PUBLIC = [getattr(voxpop, name) for name in voxpop.__all__]
SOURCES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))]
)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
LOADED = {"src", "srcset", "poster", "data"}  # attributes whose address a browser fetches by itself


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Do what `make docs` does."""
    (command,) = re.findall(r"sphinx-build (.*) -c docs \. build/docs", (ROOT / "Makefile").read_text())
    options = [*command.split(), "-d", f"{out}-doctrees", "-c", str(source / "docs"), str(source), str(out)]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options],
        capture_output=True,
        text=True,
        timeout=HANGING,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )


class Page(HTMLParser):
    """What a built page links to, what it loads, and which places on it have a name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            elif name in LOADED or (tag, name) == ("link", "href"):
                self.loads.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, out)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path.resolve(): Page(path) for path in site.rglob("*.html")}


def test_every_page_is_in_the_site(site: Path) -> None:
    expected = {path.relative_to(ROOT).with_suffix(".html") for path in SOURCES}
    assert len(expected) >= 20
    assert {path for path in expected if not (site / path).is_file()} == set()
    assert "docs/index.html" in (site / "index.html").read_text()
    assert (site / "searchindex.js").is_file()


def test_every_link_of_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken, seen = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            seen += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].names):
                broken.append(f"{path.name}: {link}")
    assert seen > 500
    assert broken == []


def test_the_site_loads_nothing_from_outside(site: Path, pages: dict[Path, Page]) -> None:
    loads = {link for page in pages.values() for link in page.loads}
    assert len(loads) > 10
    assert {link for link in loads if re.match(r"(https?:)?//", link)} == set()
    styles = {path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert len(styles) >= 3
    fetched = re.compile(r"(?:@import\s+(?:url\()?|url\()\s*[\"']?(?:https?:)?//")
    assert [name for name, text in styles.items() if fetched.search(text)] == []


def test_the_api_page_has_every_public_name(pages: dict[Path, Page]) -> None:
    (names,) = (page.names for path, page in pages.items() if path.name == "api.html")
    missing = [name for name in voxpop.__all__ if f"voxpop.{name}" not in names]
    assert missing == [], "give these names a place in docs/api.md"


PROTOCOLS = {"Policy", "Population", "Privacy"}  # docs/extending.md has an example of each, which is run


def test_every_public_name_has_an_example() -> None:
    for thing in (*PUBLIC, Kernel, Private):
        found = doctest.DocTestParser().get_examples(thing.__doc__ or "")
        assert found or thing.__name__ in PROTOCOLS, f"add an example to the docstring of {thing}; the tests run it"


def slug(heading: str) -> str:
    """Name a heading as GitHub does."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def test_every_link_of_a_source_leads_somewhere() -> None:
    """Links work on GitHub as well, where Sphinx does not look at them."""
    found = [(path, link) for path in SOURCES for link in LINK.findall(path.read_text(encoding="utf-8"))]
    for path, link in found:
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (path.parent / parts.path).resolve() if parts.path else path
        assert target.exists(), f"{path.name} links to {link}"
        if parts.fragment:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert parts.fragment in map(slug, headings), f"{path.name} links to {link}"


def test_links_are_found() -> None:
    """Guards the test above."""
    links = [link for path in SOURCES for link in LINK.findall(path.read_text(encoding="utf-8"))]
    assert sum(not urlsplit(link).scheme for link in links) >= 60
    assert sum("#" in link for link in links) >= 5
    assert slug("`voxpop` run: what is *left*?") == "voxpop-run-what-is-left"


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    """Guards the fixture: a site with a link that leads nowhere is not built."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/conf.py").write_text('extensions = ["myst_parser"]\n')
    (tmp_path / "index.md").write_text("# Site\n\n[nothing](nothing.md)\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert "nothing.md" in done.stderr
