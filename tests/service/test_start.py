"""Starting a service: with the right secret, the right port, and one sentence for what is wrong."""

from pathlib import Path

import pytest

from tests.helpers_cli import main_of, refusal
from voxpop.core.errors import InputError
from voxpop.service.keys import own_secret
from voxpop.service.serve import coordinator_of, run, shuffler_of
from voxpop.service.settings import Settings, settings_of


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
    secret = own_secret(path)
    assert own_secret(path) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_may_be_written_as_a_url(tmp_path: Path) -> None:
    coordinator_of(settings_of(database=f"sqlite:///{tmp_path}/c.db")).coordinator.database.close()
    assert (tmp_path / "c.db.secret").is_file()


def test_no_password_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from voxpop.stores import database

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

    def noted(service: object, settings: Settings) -> None:
        seen.append(settings.port)

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
