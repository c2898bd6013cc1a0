"""What PostgreSQL adds to the promises of every index: transactions, an HNSW index, and SQL beside it."""

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.search.servers import PACKAGES, Store, postgres
from tests.search.vectors import clustered, contents, embedded, names, some

psycopg = pytest.importorskip("psycopg")
psutil = pytest.importorskip("psutil")

from prunnet import VectorIndex  # noqa: E402
from prunnet.errors import SearchError  # noqa: E402
from prunnet.search.stores import postgresql  # noqa: E402
from prunnet.search.stores.postgresql import PostgresIndex  # noqa: E402
from prunnet.search.stores.server import recall_of  # noqa: E402

pytestmark = pytest.mark.stores
COUNT = 3000


@pytest.fixture(params=PACKAGES)
def store(request: pytest.FixtureRequest, tmp_path) -> Store:
    return Store(request.param, tmp_path)


@pytest.fixture
def index(store: Store) -> PostgresIndex:
    made = VectorIndex.create(store.new(), some(1))
    assert isinstance(made, PostgresIndex)
    return made


@pytest.fixture
def client(store: Store) -> Any:
    with psycopg.connect(postgres(store.kind).get_uri(), autocommit=True) as connection:
        yield connection


def table_of(index: PostgresIndex) -> str:
    return index.place.rpartition("=")[2]


WAIT = """
CREATE FUNCTION {0}_wait() RETURNS trigger AS $$ BEGIN
    IF NEW.id = 'photo-1500' THEN PERFORM pg_sleep(600); END IF;
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER wait BEFORE INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION {0}_wait();
"""


def test_a_server_that_stops_in_the_middle_of_an_add_leaves_nothing_of_it(index, store: Store, client: Any) -> None:
    index.add(some(3), names(3), {"old": True})
    before = contents(index)
    client.execute(WAIT.format(table_of(index)))
    server = postgres(store.kind)
    with ThreadPoolExecutor(1) as pool:
        added = pool.submit(index.add, some(2000, seed=1), names(2000))
        while not client.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").fetchone():
            assert not added.done(), added.exception()
        process = psutil.Process(server.get_pid())
        process.send_signal(signal.SIGQUIT)
        with pytest.raises(SearchError, match=r"the server stopped answering.*there whole or not at all") as error:
            added.result()
        assert "\n" not in str(error.value)
    process.wait(60)
    with pytest.raises(SearchError, match=r"^postgresql://.*: connection") as error:
        VectorIndex.open(index.place)
    assert "\n" not in str(error.value)
    server.ensure_postgres_running()
    assert contents(index) == before  # by another connection, which it makes by itself
    index.add(some(1, seed=2), ["more"])
    assert len(VectorIndex.open(index.place)) == 4


def test_a_lost_connection_is_said_and_made_again(index: PostgresIndex, client: Any) -> None:
    index.add(some(2), names(2))
    with pytest.raises(SearchError, match="stopped answering"), index.writing():
        client.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'prunnet'")
        index.add(some(1, seed=1), ["lost"])
    assert len(index) == 2
    index.add(some(1, seed=1), ["there"])  # the lock went with the connection
    assert "there" in index


def test_its_errors_do_not_show_the_password(store: Store) -> None:
    for address in ("postgresql://me:s3cret@127.0.0.1:1/shop", "postgresql://127.0.0.1:1/shop?password=s3cret&wrong=1"):
        with pytest.raises(SearchError) as error:
            VectorIndex.open(address)
        assert "s3cret" not in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(SearchError, match="a table is named by"):
        VectorIndex.open(f"{postgres(store.kind).get_uri()}&table=a;b")


def test_several_processes_add_at_once(index: PostgresIndex) -> None:
    others = [PostgresIndex(index.place) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for number in range(5):
            calls = [pool.submit(other.add, some(20, seed=number), names(20)) for other in others]
            calls += [pool.submit(other.add, some(5), names(5, 100 * place)) for place, other in enumerate(others, 1)]
            for call in calls:
                call.result()
    assert contents(index).keys() == {*names(20), *names(5, 100), *names(5, 200), *names(5, 300)}


def test_a_table_of_the_user_is_joined_and_kept(index: PostgresIndex, client: Any) -> None:
    index.add(some(3), names(3), [{"label": "chair"}, {"label": "chair"}, {"label": "lamp"}])
    table = table_of(index)
    client.execute(f"CREATE TABLE stock_{table} (photo text REFERENCES {table} (id), price int)")
    client.execute(f"INSERT INTO stock_{table} VALUES ('photo-0', 10), ('photo-2', 30)")
    joined = (
        f"SELECT id, price FROM {table} JOIN stock_{table} ON photo = id WHERE metadata ->> 'label' = 'chair' "
        f"ORDER BY embedding <#> (SELECT embedding FROM {table} WHERE id = 'photo-1') LIMIT 5"
    )
    assert client.execute(joined).fetchall() == [("photo-0", 10)]
    with pytest.raises(SearchError, match="violates foreign key"):
        index.remove(["photo-0"])
    assert len(index) == 3
    with pytest.raises(SearchError, match=f"table stock_{table} exists and is no gallery"):
        VectorIndex.create(index.place.replace(f"={table}", f"=stock_{table}"), some(1))


def test_check_names_what_does_not_agree(index: PostgresIndex, client: Any) -> None:
    index.add(some(3), names(3))
    client.execute(f"UPDATE {table_of(index)} SET generation = 7 WHERE id = 'photo-0'")
    client.execute(f"UPDATE {table_of(index)} SET embedding = '[1,1,1,1,1,1,1,1]' WHERE id = 'photo-1'")
    found, count = PostgresIndex.check(index.place)
    assert count == 3 and "1 vectors of a family that it does not name" in found[0] and "length is not 1" in found[1]
    client.execute(f"DROP TABLE {table_of(index)}")
    with pytest.raises(SearchError, match="does not exist"):
        len(index)


@pytest.fixture
def large(store: Store, monkeypatch: pytest.MonkeyPatch) -> PostgresIndex:
    monkeypatch.setattr(postgresql, "EXACT_ROWS", 1000)
    vectors = clustered(COUNT)
    made = PostgresIndex.make(store.new(), "family-a", vectors.shape[1])
    metadata = [{"store": str(row % 2), "rare": str(row % 300)} for row in range(COUNT)]
    made.add(embedded(vectors), names(COUNT), metadata)
    made.flush()
    return made


def test_above_a_size_it_is_searched_by_hnsw(large: PostgresIndex) -> None:
    assert "search is approximate: HNSW" in large.notes()[0]
    queries = clustered(50, seed=5)
    statement = postgresql.NEAREST.format(kind=large._kind, where="", exactly="", k=10)
    plan = large._database.rows(f"EXPLAIN {statement}", [large._as_texts(queries[:2].numpy())])
    assert any(f"{table_of(large)}_embedding" in line for (line,) in plan)
    exact = large._ask(queries.numpy(), 10, {}, exactly=True)
    assert recall_of(large._nearest(queries.numpy(), 10, {}), exact) >= 0.9
    for where in ({"store": "1"}, {"rare": "7"}):
        answers = large.search(embedded(queries), 10, where)
        assert all(len(hits) == 10 for hits in answers)
        assert all(hit.metadata[key] == value for hits in answers for hit in hits for key, value in where.items())
    first = {hits[0].id for hits in large.search(embedded(queries), 1)}
    large.remove(first)
    assert not first & {hit.id for hits in large.search(embedded(queries)) for hit in hits}
    large.compact()
    large.add(embedded(queries), [f"new-{row}" for row in range(50)])
    assert [hits[0].id for hits in large.search(embedded(queries), 1)] == [f"new-{row}" for row in range(50)]
    assert {len(hits) for hits in large.search(embedded(queries[:2]), 2 * COUNT)} == {len(large)}
