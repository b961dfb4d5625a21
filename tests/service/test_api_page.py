"""The page that describes the API: complete, without any script, and true to the document it is made from."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from tests.service.test_http import SHUFFLER_KEY, Site, client_of
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.web import bodies, coordinator_app, shuffler_app
from voxpop.service.web.limits import RateLimit


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_the_page_has_every_operation_and_every_body(site: Site) -> None:
    document, page = site.client.get("/openapi.json").json(), site.client.get("/api").text
    operations = [said for methods in document["paths"].values() for said in methods.values()]
    named = [said["operationId"] for said in operations] + list(document["components"]["schemas"])
    assert len(set(named)) == len(named)
    assert {name for name in named if f'<section id="{name}">' not in page} == set()
    assert {said["summary"] for said in operations if said["summary"] not in unescape(page)} == set()


def test_every_link_of_the_page_leads_somewhere_on_it(site: Site) -> None:
    page = site.client.get("/api").text
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert len(links) > 40
    assert links - set(re.findall(r'id="([^"]+)"', page)) == set()


def test_the_page_runs_no_script_and_loads_nothing(site: Site) -> None:
    reply = site.client.get("/api")
    page, policy = reply.text, reply.headers["content-security-policy"]
    assert re.search(r"<script|<link|<img|<iframe|\son\w+=|\sstyle=|url\(|@import", page) is None
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.endswith(f"style-src 'sha256-{digest}'")
    assert policy.startswith("default-src 'none';")


def test_the_examples_of_the_page_are_bodies_that_the_service_reads(site: Site) -> None:
    """An example that the service itself would refuse as malformed would teach the wrong thing."""
    page = unescape(site.client.get("/api").text)
    document = site.client.get("/openapi.json").json()
    read: dict[str, type[msgspec.Struct]] = {
        "create_study": bodies.NewStudy,
        "change_life": bodies.LifeChange,
        "play": bodies.Rounds,
        "upload_report": bodies.Report,
        "total": bodies.Total,
    }
    for name, model in read.items():
        (command,) = re.findall(rf'<section id="{name}">.*?<pre>(.*?)</pre>', page, re.DOTALL)
        words = shlex.split(command)
        said = words[words.index("-d") + 1]
        msgspec.json.decode(said, type=model)
        schema = {"$ref": f"#/components/schemas/{model.__name__}", "components": document["components"]}
        jsonschema_rs.validate(schema, json.loads(said))


def test_the_shuffler_has_a_page_of_its_own(tmp_path: Path) -> None:
    database = open_store(str(tmp_path / "s.db"), "shuffler")
    service = shuffler_app.ShufflerApp(
        Shuffler(database, lambda kind, **values: None), "http://127.0.0.1:1", SHUFFLER_KEY
    )
    with client_of(service.guarded(RateLimit(0, 1), 4096)) as client:
        page = client.get("/api").text
    assert "voxpop shuffler" in page
    assert '<section id="announce">' in page
    assert coordinator_app.CoordinatorApp.description not in page
    database.close()


def test_head_is_answered_with_the_headers_of_get_and_no_body(site: Site) -> None:
    operations = site.client.get("/openapi.json").json()["paths"]
    for path in ("/", "/api", "/openapi.json", "/healthz", "/readyz", "/v2/studies/tea/decision"):
        got, head = site.client.get(path), site.client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert {**head.headers, "date": ""} == {**got.headers, "date": ""}
    assert site.client.head("/v2/studies/tea").status_code == 401
    assert site.client.head("/v2/batches/" + "b" * 43 + "/total").status_code == 405
    assert all("head" not in methods for methods in operations.values())
