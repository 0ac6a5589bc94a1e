"""No command shows a password, whatever happens."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
import typer

from causalbald._addresses import masked, without_passwords
from causalbald.campaign.storage import open_storage
from causalbald.campaign.storage._postgres import PostgresDatabase
from causalbald.cli._app import app
from causalbald.errors import CausalBaldError
from tests.helpers.cli_campaigns import STUDY, call_main, measure, write_patients
from tests.helpers.postgres import database_url
from tests.helpers.storages import created, refused

SECRET = "s3cr3t"
ADDRESS = f"postgresql://alice:{SECRET}@127.0.0.1:1/db"
UNUSABLE = [
    f"{ADDRESS}#trial",
    ADDRESS.replace("://", ":/"),
    ADDRESS.replace("://", ":"),
    ADDRESS.replace("postgresql", " postgresql"),
    ADDRESS.replace("postgresql", "Postgres"),
    ADDRESS.replace("postgresql", "mysql"),
    ADDRESS.replace("postgresql", "sqlite"),
    ADDRESS.replace("postgresql://", "sqlite:///"),
    ADDRESS.replace("postgresql://", ""),
    ADDRESS.replace("@127.0.0.1:1/db", ""),
    ADDRESS.replace(SECRET, f"a@{SECRET}"),
    ADDRESS.replace(SECRET, f"a@{SECRET}/{SECRET}"),
    ADDRESS.replace(SECRET, f"a@b?{SECRET}"),
    ADDRESS.replace(SECRET, f"a#{SECRET}"),
    ADDRESS.replace(SECRET, f"{SECRET}%00"),
    ADDRESS.replace("alice", "alice@server"),
    f"postgresql://alice@127.0.0.1:1/db?sslmode=disable&password={SECRET}",
    f"postgresql://alice@127.0.0.1:1/db?pass%77ord={SECRET}#trial",
    f"postgresql://alice@127.0.0.1:1/db?pwd={SECRET}",
    f"host=127.0.0.1 port=1 password={SECRET}",
    f"host=127.0.0.1 password = 'a {SECRET}'",
]


def commands(at: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands of the program with the words that call them."""
    at = at or typer.main.get_command(app)
    for name, command in getattr(at, "commands", {}).items():
        yield from commands(command, (*path, name))
        yield (*path, name), command


def lines(path: tuple[str, ...], command: Any, address: str) -> Iterator[list[str]]:
    """Yield the command's own examples with an address wherever it takes one."""
    for example in re.findall(rf"causalbald {' '.join(path)} (.*)", command.epilog or ""):
        for parameter in command.params:
            if "postgresql://" in (parameter.help or "") or "Database" in (parameter.help or ""):
                words = shlex.split(example)
                if parameter.param_type_name == "argument":
                    yield [*path, address, *words[1:]]
                else:
                    yield [*path, *words, parameter.opts[0], address]


def with_address(address: str) -> list[list[str]]:
    """Return a line for each command that takes an address."""
    taken = {path: line for path, command in commands() for line in lines(path, command, address)}
    assert len(taken) >= 18
    return list(taken.values())


def nowhere(text: str) -> None:
    # Messages about wrong usage stand in a frame and may be broken anywhere.
    assert SECRET not in re.sub(r"[\s│]", "", text), text


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_patients(tmp_path / "patients.csv", "name")


@pytest.mark.parametrize("address", UNUSABLE)
def test_an_address_that_cannot_be_used(
    address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nowhere(masked(address))
    with pytest.raises(CausalBaldError) as caught:
        open_storage(address).events()
    nowhere(str(caught.value))
    for line in [line for line in with_address(address) if line[0] == "campaign"]:
        assert call_main(monkeypatch, *line) == 1, line
    printed = capfd.readouterr()
    nowhere(printed.out + printed.err)
    assert [path.name for path in Path().rglob("*")] == ["patients.csv"]


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_a_bug(debug: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(where: str, *_: Any) -> None:
        try:
            raise ValueError(f"the cause: {where}")
        except ValueError as error:
            raise ZeroDivisionError(f"{[where]} and {SECRET}") from error

    for place in ("causalbald.campaign._campaign", "causalbald.campaign._opened", "causalbald.campaign.storage"):
        monkeypatch.setattr(f"{place}.open_storage", broken)
    for line in with_address(ADDRESS):
        if line[0] == "campaign":
            assert call_main(monkeypatch, *debug, *line) == 1, line
            printed = capfd.readouterr()
            nowhere(printed.out + printed.err)
            assert "ZeroDivisionError" in printed.err
            assert ("the cause" in printed.err) == bool(debug)
            assert "alice:***@127.0.0.1" in printed.err


def test_an_address_where_none_belongs(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for line in (
        [ADDRESS],
        ["campaign", ADDRESS],
        ["campaign", "status", "study.db", ADDRESS],
        ["campaign", "ask", "study.db", "-n", ADDRESS],
        ["campaign", "import", "copy.db", ADDRESS],
        ["campaign", "new", "study.db", "--pool", ADDRESS, "--id", "a", "--treatment", "b", "--outcome", "c"],
        ["datasets", "show", "ihdp", "-o", f"{ADDRESS}/a.svg"],
        ["trial", f"--output={ADDRESS}"],
        ["tune", "--trials", "1", "--storage", ADDRESS.replace("postgresql", "unknown")],
        ["tune", "--trials", "1", "--storage", ADDRESS],
        ["choose", "patients.csv", "--measured", ADDRESS, "--id", "a", "--treatment", "b", "--outcome", "c"],
    ):
        assert call_main(monkeypatch, *line) in (1, 2), line
        printed = capfd.readouterr()
        nowhere(printed.out + printed.err)


def test_what_is_no_address_is_left_alone() -> None:
    for text in (
        *(
            "study.db",
            "/data/a@b/study.db",
            r"C:\Users\a@b\study.db",
            "C:/Users/a@b/study.db",
            "12:30",
            "moved: see a@b",
        ),
        *("postgresql://u@h:5432/db#trial", "postgresql://u@[::1]:5432/db", "postgresql://h1:5432,h2:5433/db"),
        *("postgresql://postgres:@/db?host=/run/pg", "postgresql://u@h/db?passfile=/keys&sslmode=require"),
    ):
        assert masked(text) == text
    assert (
        masked(f"postgresql://a:{SECRET}@h:1/db?password={SECRET}&x=1#n")
        == "postgresql://a:***@h:1/db?password=***&x=1#n"
    )


def test_every_spelling_of_a_password() -> None:
    address = "postgresql://a:p%40s%2Fs%20%27\\@h/db"
    for spelling in ("p%40s%2Fs%20%27\\", "p@s/s '\\", "p%40s%2Fs+%27%5C", "p%40s/s%20%27%5C", repr("p@s/s '\\")):
        assert not re.search("p.{1,3}s", without_passwords(f"server said: {spelling}", [address])), spelling
    assert without_passwords("postgresql://h: postgres", ["postgres://u:postgres@h"]) == "postgresql://h: ***"


def keyed_address() -> str:
    """Return the address of an empty database whose server asks for a password."""
    url = database_url()
    password = f"a/{SECRET}@"
    with PostgresDatabase(url).transaction(write=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'keyed'").fetchone():
            connection.execute(f"CREATE ROLE keyed LOGIN PASSWORD '{password}'")
        name, rules = connection.execute("SELECT current_database(), current_setting('hba_file')").fetchone()
        connection.execute(f"ALTER DATABASE {name} OWNER TO keyed")
    first = "local all keyed scram-sha-256\n"
    if not (text := Path(rules).read_text()).startswith(first):
        Path(rules).write_text(first + text)
    with PostgresDatabase(url).transaction(write=True) as connection:
        connection.execute("SELECT pg_reload_conf()")
    return url.replace("postgres:@", f"keyed:{quote(password, safe='')}@") + "#trial"


def test_a_password_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = keyed_address()
    created(at)
    for address in (masked(at), re.sub("keyed:.*@", "keyed@", at)):
        assert SECRET not in address
        with refused("cannot reach", "PGPASSWORD or ~/.pgpass"):
            open_storage(address).events()
        with monkeypatch.context() as patch:
            patch.setenv("PGPASSWORD", f"a/{SECRET}@")
            assert len(open_storage(address).events()) == 1
        with monkeypatch.context() as patch:
            patch.setenv("HOME", str(tmp_path))
            patch.setenv("PGPASSFILE", str(tmp_path / ".pgpass"))
            Path(".pgpass").write_text(f"*:*:*:keyed:a/{SECRET}@\n")
            Path(".pgpass").chmod(0o600)
            assert len(open_storage(address).events()) == 1


def test_every_command_that_succeeds(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    at = keyed_address()
    every = {path[1]: [*lines(path, command, at)] for path, command in commands() if path[:-1] == ("campaign",)}
    left = {name for name in every if every[name]}

    def succeed(name: str, *more: str) -> str:
        left.discard(name)
        for line in every[name]:
            assert call_main(monkeypatch, *line, *more) == 0, (line, capfd.readouterr())
        printed = capfd.readouterr()
        nowhere(printed.out + printed.err)
        return printed.err

    every["new"] = every["new"][:1]
    said = succeed("new", "--model", "gp", "--picture", "overlap.svg")
    assert "campaign ask 'postgresql://keyed:***@/" in said
    assert "PGPASSWORD" in said
    assert "campaign tell 'postgresql://keyed:***@/" in succeed("ask")
    measure("batch.csv", "results.csv")
    results = pd.read_csv("results.csv")
    results[~results["patient"].isin([17, 23])].to_csv("results.csv", index=False)
    succeed("tell")
    succeed("ask", "-n", "50", "-o", "rest.csv", "--json")
    pd.read_csv("rest.csv")[["patient"]].query("patient not in (17, 23)").head(2).to_csv("failed.csv", index=False)
    succeed("fail")
    STUDY.drop(columns="cd4").to_csv("others.csv", index=False)
    succeed("export")
    every["import"] = [[word.replace("#trial", "#copy") for word in line] for line in every["import"]]
    for name in sorted(left):
        succeed(name)
    succeed("status", "--json")
    for path in Path().rglob("*"):
        nowhere(path.read_bytes().decode("latin-1"))
