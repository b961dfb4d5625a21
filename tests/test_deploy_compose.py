"""The services of deploy/compose.yaml fit together: their flags, keys, addresses and rights."""

import re
import shlex
import subprocess
from collections.abc import Callable
from contextlib import closing
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
import yaml

from tests.helpers_cli import main_of
from tests.test_deploy import DEPLOY, instructions, require_command, require_settings, text
from voxpop.service import operators
from voxpop.service.stores.migrate import open_store


def test_the_services_of_compose_have_flags_and_settings_that_exist() -> None:
    document = yaml.safe_load(text("compose.yaml"))
    services = document["services"]
    assert set(services) == {"coordinator", "shuffler", "database", "proxy"}
    for name in ("coordinator", "shuffler"):
        service = services[name]
        require_command(service["command"])
        require_settings(list(service["environment"]))
        for secret in service["secrets"]:
            assert secret in document["secrets"]
        mounted = {value for value in service["environment"].values() if value.startswith("/run/secrets/")}
        assert mounted == {f"/run/secrets/{secret}" for secret in service["secrets"]}
        assert "ports" not in service  # only the proxy is reached from outside
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in document["volumes"] or (DEPLOY / source).is_file()


def steps_of_compose() -> list[list[str]]:
    """Return the commands that the first lines of compose.yaml ask for."""
    lines = re.findall(r"^#(?:   | .*: )((?:mkdir|voxpop|podman) .*)$", text("compose.yaml"), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_the_keys_of_compose_belong_to_the_user_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is mounted as a secret keeps its owner and its rights: only the owner may read it."""
    monkeypatch.chdir(tmp_path)
    voxpop, steps = main_of(monkeypatch), steps_of_compose()
    for step in steps:
        if step[0] == "mkdir":
            subprocess.run(step, check=True)
        elif step[0] == "voxpop":
            assert voxpop(*step[1:]).code == 0
    files = {secret["file"].removeprefix("./") for secret in yaml.safe_load(text("compose.yaml"))["secrets"].values()}
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("secrets/*")} == files
    (chown,) = [step for step in steps if "chown" in step]
    (user,) = [said for kind, said in instructions() if kind == "USER"]
    assert chown[chown.index("chown") + 1] == user
    assert set(chown[chown.index("chown") + 2 :]) == files


def test_the_key_of_compose_is_made_in_the_database_of_its_coordinator(
    new_postgres: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (step,) = [step for step in steps_of_compose() if "exec" in step]
    service = yaml.safe_load(text("compose.yaml"))["services"][step[step.index("exec") + 1]]
    address = new_postgres()
    open_store(address, "coordinator").close()
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, address if value.startswith("postgresql://") else value)
    key = main_of(monkeypatch)(*step[step.index("voxpop") + 1 :]).out.strip()
    with closing(open_store(address, "coordinator")) as store:
        assert operators.principal_of(store, key) == operators.Principal(step[-1])
    assert list(tmp_path.iterdir()) == []


def test_only_the_proxy_of_compose_can_have_the_address_that_is_trusted() -> None:
    document = yaml.safe_load(text("compose.yaml"))
    (pool,) = document["networks"]["inside"]["ipam"]["config"]
    fixed = document["services"]["proxy"]["networks"]["inside"]["ipv4_address"]
    trusted = {
        service.get("environment", {}).get("VOXPOP_TRUSTED_PROXIES") for service in document["services"].values()
    }
    assert trusted - {None} == {fixed}
    assert IPv4Address(fixed) in IPv4Network(pool["subnet"])
    assert IPv4Network(pool["ip_range"]).subnet_of(IPv4Network(pool["subnet"]))
    assert IPv4Address(fixed) not in IPv4Network(pool["ip_range"])
