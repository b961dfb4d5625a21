"""The files in deploy/ are true: their steps run, and the flags, settings and metrics that they name exist."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
import yaml
from prometheus_client import generate_latest

from tests.helpers_cli import ROOT, VOXPOP
from tests.helpers_waiting import HANGING, until
from voxpop.cli.commands import load
from voxpop.service.serve import Settings
from voxpop.service.web.bodies import MOST_STUDY_BYTES
from voxpop.service.web.metrics import SERVICE_GAUGES as OF_SERVICE
from voxpop.service.web.metrics import STUDY_GAUGES as GAUGES
from voxpop.service.web.metrics import Telemetry

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
BACKUP = DEPLOY / "voxpop-backup.service"
RIGHTS = {"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "CapabilityBoundingSet": ""}
FOLDERS = ("/src", "/wheels", "/opt/voxpop", "/var/lib/voxpop")  # of the container


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    lines = text("Containerfile").replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line and not line.startswith("#")]


class Container:
    """An empty folder in place of a container: its steps run there, with an empty home and nothing of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.root, self.folder = folder / "root", folder
        # `python` is the one of the image. Dependencies are linked; only tests/test_package.py downloads them.
        (folder / "bin").mkdir()
        (folder / "bin/python").symlink_to(sys.executable)
        self.environment = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith(("PIP_INDEX", "PIP_FIND", "PIP_CON"))
            },
        }
        for name in ("home", "root", "root/opt", "root/var/lib"):
            (folder / name).mkdir(parents=True)

    def placed(self, said: str) -> str:
        """Return a step with the folders of the container in this one."""
        for name in FOLDERS:
            said = re.sub(rf"(?<![\w.-]){re.escape(name)}\b", f"{self.root}{name}", said)
        return said

    def run(self, step: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", self.placed(step)],
            capture_output=True,
            text=True,
            cwd=self.root,
            env={**self.environment, **({"PIP_NO_DEPS": "1"} if " install " in step else {})},
            timeout=HANGING,
            check=False,
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"

    def copy(self, words: list[str]) -> None:
        source, target = words[-2], Path(self.placed(words[-1]))
        if source == ".":
            ignored = (ROOT / ".containerignore").read_text().split()
            shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*(name.split("/")[-1] for name in ignored)))
        elif "--from=build" not in words:
            shutil.copy(ROOT / source, target)

    def follow(self) -> tuple[list[str], list[str]]:
        """Follow all instructions; return the command, and the check of its health."""
        command: list[str] = []
        health: list[str] = []
        for kind, said in instructions():
            if kind == "COPY":
                self.copy(said.split())
            elif kind == "RUN" and not said.startswith("chown "):  # which takes root
                self.run(said)
            elif kind == "ENV":
                for name, _, value in (pair.partition("=") for pair in shlex.split(said)):
                    self.environment[name] = self.placed(value)
            elif kind == "CMD":
                command = json.loads(said)
            elif kind == "HEALTHCHECK":
                health = json.loads(said[said.index("[") :])
        return command, health


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_the_steps_of_the_container_lead_to_a_service_that_is_ready(container: Container) -> None:
    command, health = container.follow()
    (site,) = container.root.glob("opt/voxpop/lib/python*/site-packages")
    assert (site / "voxpop").is_dir()
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    log = container.folder / "log"
    environment = {**container.environment, "VOXPOP_PORT": "0", "VOXPOP_HOST": "127.0.0.1"}
    program = shutil.which(command[0], path=environment["PATH"])
    assert program == f"{container.root}/opt/voxpop/bin/voxpop"
    with log.open("w") as said:
        server = subprocess.Popen(
            [program, *command[1:]], cwd=container.root / "var/lib/voxpop", env=environment, stderr=said
        )
    try:
        until(lambda: '"listening"' in log.read_text() or server.poll() is not None, "the start", pause=0.05)
        assert server.poll() is None, log.read_text()
        (said_first,) = [json.loads(line) for line in log.read_text().splitlines() if '"listening"' in line]
        assert said_first["service"] == "coordinator"
        url = said_first["url"]
        assert httpx.get(url + "/readyz").json() == {"status": "ready"}
        python = shutil.which(health[0], path=environment["PATH"])
        checked = {**environment, "VOXPOP_PORT": url.rsplit(":", 1)[1]}
        assert subprocess.run([str(python), *health[1:]], env=checked, check=False).returncode == 0
    finally:
        server.terminate()
        server.wait()
    assert (container.root / "var/lib/voxpop/voxpop.db").stat().st_mode & 0o777 == 0o600


def test_the_container_does_not_run_as_root() -> None:
    kinds = [kind for kind, _ in instructions()]
    (user,) = [said for kind, said in instructions() if kind == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert kinds.index("USER") < kinds.index("CMD")
    assert all("/" not in said.split()[0] for kind, said in instructions() if kind == "FROM")


@pytest.mark.parametrize("path", ["deploy/Containerfile", "deploy/voxpop.service", "docs/service.md"])
def test_what_is_installed_can_do_all_that_the_documents_ask_for(path: str) -> None:
    (extras,) = re.findall(r"(?:voxpop|\))\[([\w,]+)\]", (ROOT / path).read_text(encoding="utf-8"))
    assert set(extras.split(",")) == {"service", "privacy", "report"}


def require_command(words: list[str]) -> None:
    """Refuse a command or a flag that voxpop does not have."""
    assert Path(words[0]).name == "voxpop"
    known = {name for parameter in load(words[1]).params for name in parameter.opts}
    assert {word for word in words[2:] if word.startswith("--")} - known == set()


def require_settings(names: list[str]) -> None:
    """Refuse a variable that no service reads."""
    known = {f"VOXPOP_{name.upper()}" for name in get_type_hints(Settings)} | {"VOXPOP_LEAST_BATCH"}
    assert {name for name in names if name.startswith("VOXPOP_")} - known == set()


def settings_of_unit(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


@pytest.mark.parametrize("path", [path for path in UNITS if path != BACKUP], ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_exists_and_has_few_rights(path: Path) -> None:
    said = settings_of_unit(path)
    only = dict(said)
    require_command(shlex.split(only["ExecStart"]))
    commented = re.findall(r"^#Environment=(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    require_settings([value.split("=")[0] for name, value in said if name == "Environment"] + commented)
    database = shlex.split(only["ExecStart"])[3]
    assert database.startswith(f"/var/lib/{only['StateDirectory']}/")
    assert RIGHTS.items() <= only.items()


def test_the_unit_of_backups_runs_commands_that_exist_and_has_few_rights() -> None:
    only = dict(settings_of_unit(BACKUP))
    shell, flags, script = shlex.split(only["ExecStart"])
    assert (shell, flags) == ("/bin/sh", "-euc")
    commands = [shlex.split(part) for part in script.split(";") if part.strip().startswith("voxpop ")]
    assert [words[1] for words in commands] == ["backup", "restore"]
    for words in commands:
        require_command(words)
    assert RIGHTS.items() <= only.items()


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_every_line_of_a_unit_is_one_that_systemd_understands(path: Path, tmp_path: Path) -> None:
    """Where systemd is installed, it says so itself; elsewhere at least the form of every line is checked."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"\[(Unit|Service|Install)\]|[A-Z]\w+=.*", line) for line in lines)
    if shutil.which("systemd-analyze") is not None:
        unit = tmp_path / path.name
        unit.write_text("\n".join(lines).replace("/opt/voxpop/bin/voxpop", str(VOXPOP)) + "\n")
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def named_metrics(said: Any) -> set[str]:
    """Return all metrics that expressions anywhere in a document name."""
    return set(re.findall(r"voxpop_\w+", json.dumps(said)))


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    telemetry = Telemetry()
    telemetry.request("GET", "/", 200, 0.1)
    telemetry.events.labels("opened").inc()
    shown = {line.split("{")[0].split()[0] for line in generate_latest(telemetry.registry).decode().splitlines()}
    known = shown | set(OF_SERVICE) | {f"voxpop_study_{name}" for name in GAUGES}
    rules = yaml.safe_load(text("alerts.yml"))["groups"][0]["rules"]
    panels = json.loads(text("grafana.json"))
    for document in ([rule["expr"] for rule in rules], panels):
        assert named_metrics(document)
        assert named_metrics(document) - known == set()
    assert {f"voxpop_study_{name}" for name in GAUGES} - named_metrics(panels) == set()
    assert all(rule["for"] for rule in rules)  # what passes by itself wakes nobody
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "warn") for rule in rules)


def test_prometheus_reads_the_alerts_and_shows_its_key() -> None:
    document = yaml.safe_load(text("prometheus.yml"))
    assert all((DEPLOY / name).is_file() for name in document["rule_files"])
    assert document["scrape_configs"][0]["authorization"]["credentials_file"]
    jobs = {job["job_name"] for job in document["scrape_configs"]}
    assert jobs == {"voxpop", "voxpop-shuffler"}  # as the alert VoxpopDown expects


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_a_proxy_lets_the_largest_study_through_and_buffers_no_events(name: str) -> None:
    said = text(name)
    (size,) = re.findall(r"client_max_body_size (\d+)m;|max_size (\d+)MiB$", said, re.MULTILINE)
    assert int("".join(size)) * 2**20 == MOST_STUDY_BYTES
    assert name == "Caddyfile" or "http2 on;" in said  # which Caddy needs not be told
    assert "proxy_buffering off;" in said or "flush_interval -1" in said
    assert "Strict-Transport-Security" in said


def test_nginx_passes_on_the_host_with_its_port_as_browsers_name_it() -> None:
    assert re.findall(r"proxy_set_header Host (\S+);", text("nginx.conf")) == ["$http_host"]
