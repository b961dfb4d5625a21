"""Starting a service: with the right secret, the right port, and one sentence for what is wrong."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers_cli import main_of, refusal
from voxpop.errors import InputError
from voxpop.service import logs
from voxpop.service.keys import make_secret, new_key, write_key
from voxpop.service.operators import principal_of
from voxpop.service.serve import Settings, coordinator_of, run, settings_of, shuffler_of
from voxpop.service.stores.migrate import open_store
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.shuffler_app import ShufflerApp


def test_another_secret_is_refused(address: str) -> None:
    """Its tokens would differ, and every device would be told that its token is unknown."""
    coordinator_of(settings_of(database=address, secret="a" * 40)).coordinator.database.close()
    coordinator_of(settings_of(database=address, secret="a" * 40)).coordinator.database.close()
    with pytest.raises(InputError, match="the secret is not the one") as call:
        coordinator_of(settings_of(database=address, secret="b" * 40))
    refusal(call)


def test_an_empty_secret_file_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "c.db.secret"
    path.touch()
    make_secret(path)
    secret = path.read_text()
    make_secret(path)
    assert path.read_text() == secret != ""
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_may_be_written_as_a_url(tmp_path: Path) -> None:
    coordinator_of(settings_of(database=f"sqlite:///{tmp_path}/c.db")).coordinator.database.close()
    assert (tmp_path / "c.db.secret").is_file()


def test_no_password_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from voxpop.service.stores import database

    def opened(address: str) -> database.Database:
        made = real(str(tmp_path / "c.db"))
        monkeypatch.setattr(type(made), "name", property(lambda self: "postgresql://me:***@host/x"))
        return made

    real = database.open_database
    monkeypatch.setattr(database, "open_database", opened)
    done = main_of(monkeypatch)("migrate", "--database", "postgresql://me:sesame@host/x")
    assert done.code == 0, done.err
    assert "sesame" not in done.out + done.err


@pytest.mark.parametrize(("command", "usual"), [("serve", 8000), ("shuffler", 8001)])
def test_the_port_is_taken_from_the_environment(
    command: str, usual: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from voxpop.service import serve

    monkeypatch.chdir(tmp_path)
    seen: list[int | None] = []

    def noted(service: CoordinatorApp | ShufflerApp, settings: Settings) -> None:
        seen.append(settings.port)
        (service.coordinator if isinstance(service, CoordinatorApp) else service.shuffler).database.close()

    monkeypatch.setattr(serve, "run", noted)
    monkeypatch.setenv("VOXPOP_SHUFFLER_KEY", "k" * 40)
    monkeypatch.setenv("VOXPOP_COORDINATOR_URL", "http://127.0.0.1:1")
    assert main_of(monkeypatch)(command).code == 0
    monkeypatch.setenv("VOXPOP_PORT", "9321")
    assert main_of(monkeypatch)(command).code == 0
    assert main_of(monkeypatch)(command, "--port", 9322).code == 0
    assert seen == [usual, 9321, 9322]


def test_a_file_that_is_not_a_certificate_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.pem"
    file.write_text("not a certificate")
    given = {"database": str(tmp_path / "s.db"), "shuffler_key": "k" * 40, "coordinator_url": "http://127.0.0.1:1"}
    settings = settings_of(**given, port=0, tls_cert=file, tls_key=file)
    service = shuffler_of(settings)
    with pytest.raises(InputError, match="are not a certificate and its key") as call:
        run(service, settings)
    refusal(call)
    service.shuffler.database.close()


def warnings_of(settings: Settings, capsys: pytest.CaptureFixture[str]) -> list[str]:
    logs.set_up()
    settings.own_secret()
    settings.own_shuffler_key()
    return [json.loads(line)["warning"] for line in capsys.readouterr().err.splitlines()]


def test_a_key_file_that_others_can_read_is_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, key = tmp_path / "secret.key", tmp_path / "shuffler.key"
    for path in (secret, key):
        write_key(path, new_key())
    settings = settings_of(database=str(tmp_path / "c.db"), secret_file=secret, shuffler_key_file=key)
    assert warnings_of(settings, capsys) == []
    key.chmod(0o640)
    (warning,) = warnings_of(settings, capsys)
    assert warning == f"other accounts of this machine may read {key} (mode 640); run: chmod 600 {key}"
    key.chmod(0o600)
    own = settings_of(database=str(tmp_path / "c.db"))
    assert warnings_of(own, capsys) == []
    (tmp_path / "c.db.secret").chmod(0o604)
    assert len(warnings_of(own, capsys)) == 1


def test_key_files_are_made_for_their_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, run_command = tmp_path / "c.db", main_of(monkeypatch)
    old = os.umask(0)
    try:
        assert run_command("keys", "random", "--file", tmp_path / "a.key").code == 0
        assert run_command("keys", "operator", "me", "--database", database, "--file", tmp_path / "b.key").code == 0
    finally:
        os.umask(old)
    rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*")}
    assert rights == {"a.key": 0o600, "b.key": 0o600, "c.db": 0o600}
    with closing(open_store(str(database), "coordinator")) as store:
        assert principal_of(store, (tmp_path / "b.key").read_text().strip())


def test_a_key_file_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.key"
    path.write_text("precious")
    done = main_of(monkeypatch)("keys", "random", "--file", path)
    assert (done.code, path.read_text()) == (2, "precious")
    assert "name another one" in done.err


def test_an_operator_hears_that_others_can_read_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my.key"
    path.write_text(new_key())
    path.chmod(0o644)
    done = main_of(monkeypatch)("study", "status", "tea", "--url", "http://127.0.0.1:1", "--key-file", path)
    assert done.err.startswith(f"warning: other accounts of this machine may read {path} (mode 644)")


def test_a_variable_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("VOXPOP_PORT", "many"), ("VOXPOP_RATE", "-"), ("VOXPOP_OPEN_DASHBOARD", "perhaps")):
        monkeypatch.setenv(name, value)
        with pytest.raises(InputError, match=f"correct the flag or {name}") as call:
            settings_of()
        refusal(call)
        monkeypatch.delenv(name)


def test_the_environment_is_read_and_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SECRET": "s" * 40, "TLS_CERT": "c.pem", "OPEN_DASHBOARD": "true", "HSTS": "7"}.items():
        monkeypatch.setenv(f"VOXPOP_{name}", value)
    found = settings_of(hsts=8)
    assert (found.tls_cert, found.open_dashboard, found.hsts, found.secret) == (Path("c.pem"), True, 8, "s" * 40)
    assert "ssss" not in repr(found)
