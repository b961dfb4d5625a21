"""The package for browsers and Node: it type-checks, its own tests pass, and it is small."""

import json
import re
from pathlib import Path

import pytest

import voxpop
from tests.clients_js.npm import SDK, bundle, node, tool

MOST_BYTES = 10_000  # of the compressed bundle
MOST_PROOF_BYTES = 2_500  # of the file that only the aggregate model loads
PACKAGE = json.loads((SDK / "package.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published, in a folder of modules that an app may import from."""
    folder = tmp_path_factory.mktemp("app")
    package = folder / "node_modules" / PACKAGE["name"]
    bundle(package / "dist")
    done = tool("tsc", "-p", "tsconfig.build.json", "--outDir", package / "dist")
    assert done.returncode == 0, done.stdout
    (package / "package.json").write_text(json.dumps(PACKAGE), encoding="utf-8")
    return folder


def test_types_are_right() -> None:
    done = tool("tsc")
    assert (done.returncode, done.stdout) == (0, "")


def test_its_own_tests_pass() -> None:
    done = node("--test", "test/*.test.ts")
    assert done.returncode == 0, done.stdout[-20_000:]
    assert re.search(r"^. tests \d\d+$", done.stdout, re.MULTILINE)  # and there are some


def test_the_bundle_is_small_and_asks_for_nothing_of_node(built: Path) -> None:
    folder = built / "node_modules" / PACKAGE["name"] / "dist"
    path, proofs = folder / "index.js", folder / "prio3.js"
    measure = "const fs = require('fs'); console.log(require('zlib').gzipSync(fs.readFileSync(process.argv[1])).length)"
    done = node("-e", measure, path)
    assert 1000 < int(done.stdout) <= MOST_BYTES
    text = path.read_text(encoding="utf-8")
    assert text.count('import("./prio3.js")') == 1  # which only shared reports need
    assert not re.search(r"\bimport\b|\brequire\b|node:", text.replace('import("./prio3.js")', ""))
    assert not re.search(r"\bimport\b|\brequire\b|node:", proofs.read_text(encoding="utf-8"))
    assert 1000 < int(node("-e", measure, proofs).stdout) <= MOST_PROOF_BYTES


APP = """
import { Device, MemoryStorage, Outcome, type Storage } from "voxpop-device";
import { FileStorage } from "voxpop-device/node";

const storages: Storage[] = [new MemoryStorage(), new FileStorage("device.json")];
for (const storage of storages) {
  const device = new Device({ url: "http://127.0.0.1:1", study: "tea", promise: { model: "local", epsilon: 5 },
                              storage, attempts: 1 });
  await device.record(1, 0, 0.5);
  const outcome: Outcome = await device.checkIn();
  console.log(outcome === Outcome.OFFLINE);
}
"""


def test_an_app_can_import_it_with_its_types_as_the_page_shows(built: Path) -> None:
    page = (SDK.parent.parent / "docs/devices.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```js\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    programs = {"app.ts": APP, **{f"shown_{number}.ts": text for number, text in enumerate(shown)}}
    for name, text in programs.items():
        (built / name).write_text(text, encoding="utf-8")
    options = {"module": "NodeNext", "strict": True, "noEmit": True, "skipLibCheck": False, "types": []}
    (built / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (built / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": options, "files": [*programs]}), encoding="utf-8"
    )
    checked = tool("tsc", "-p", built)
    assert (checked.returncode, checked.stdout) == (0, "")
    done = node(built / "app.ts", cwd=built)
    assert (done.stdout.split(), done.stderr) == (["true", "true"], "")
    assert (built / "device.json").stat().st_mode & 0o077 == 0


def test_it_depends_on_nothing_and_is_built_by_exact_versions() -> None:
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(PACKAGE)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in PACKAGE["devDependencies"].values())
    assert PACKAGE["version"] == voxpop.__version__
    assert not (SDK / "package-lock.json").exists()
