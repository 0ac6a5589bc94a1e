"""PostgreSQL: many campaigns in a database, many writers, and no password in a message."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from causalbald.campaign.storage import Draft, Event, _postgres, open_storage
from causalbald.errors import CampaignExistsError
from tests.helpers.postgres import campaign_url, database_url
from tests.helpers.storages import created, note, refused


def test_a_database_holds_many_campaigns() -> None:
    url = database_url()
    with refused("no campaign", "create it"):
        open_storage(url).events()
    created(f"{url}#trial-a")
    open_storage(f"{url}#trial-a").append(0, note)
    with refused("#study", "check the name", "trial-a"):
        open_storage(url).events()
    created(url)
    assert len(open_storage(f"{url}#study").events()) == 1
    assert len(open_storage(url.replace("postgresql://", "postgres://") + "#trial-a").events()) == 2
    with refused("#trial-a", "already", error=CampaignExistsError):
        created(f"{url}#trial-a")


def test_campaigns_created_at_once_in_an_empty_database() -> None:
    url = database_url()

    def create(name: str) -> bool:
        try:
            created(f"{url}#{name}")
        except CampaignExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(create, ["a", "b", "a", "b"]))
    assert sorted(done) == [False, False, True, True]
    for name in "ab":
        open_storage(f"{url}#{name}").check()


def test_a_campaign_in_use_is_waited_for_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    url = campaign_url()
    storage = created(url)
    monkeypatch.setattr(_postgres, "_WAIT_SECONDS", 1)

    def decide(_known: list[Event]) -> list[Draft]:
        assert len(open_storage(url).events()) == 1
        with refused("in use", "try again"):
            open_storage(url).append(0, note)
        return []

    storage.append(0, decide)


def test_a_stricter_default_of_the_server_loses_nothing() -> None:
    url = database_url()
    created(url)
    with _postgres.PostgresDatabase(url).transaction(write=True) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: open_storage(url).append(0, note), range(8)))
    assert len(open_storage(url).events()) == 9


def test_a_lost_connection_says_what_is_unknown() -> None:
    url = campaign_url()
    storage = created(url)

    def decide(_known: list[Event]) -> list[Draft]:
        stop = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        with _postgres.PostgresDatabase(url).transaction(write=False) as connection:
            connection.execute(stop).fetchall()
        return [Draft("note", {})]

    with refused("lost the connection", "before you repeat"):
        storage.append(0, decide)
    assert len(storage.events()) == 1


def test_rights_that_are_missing() -> None:
    url = database_url()
    with _postgres.PostgresDatabase(url).transaction(write=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
    with refused("refused", "permission denied"):
        created(url.replace("postgres:@", "guest@"))


@pytest.mark.parametrize("address", ["u:hush@127.0.0.1:1/db", "u@127.0.0.1:1/db?password=hush", "u:hush@h.invalid/db"])
def test_a_server_out_of_reach(address: str) -> None:
    with refused("cannot reach postgresql://u@", "check that the server runs", without="hush"):
        open_storage(f"postgresql://{address}").events()


def test_a_password_in_what_the_server_says() -> None:
    with refused('database "***" does not exist'):
        open_storage(campaign_url().replace("postgres:@/postgres?", "postgres:hush@/hush?")).events()


def test_a_database_that_does_not_exist() -> None:
    with refused("cannot reach", "does not exist"):
        open_storage(campaign_url().replace("/postgres?", "/unknown?")).events()


def test_a_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, _postgres.__name__)
    with refused("causalbald[postgres]", "pip install"):
        open_storage("postgresql://u@127.0.0.1:1/db").events()
