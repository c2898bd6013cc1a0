"""Classes to choose settings on: a manifest of the training classes of the Grocery Store Dataset alone.

    python benchmarks/tuning_classes.py grocery/open_classes.csv tuning.csv

Of the 54 in alphabetical order every third from the second on is searched, asked by its photographs in `test/`; the
other 36 are learnt. The 27 classes on which results are reported are not in it.
"""

import argparse
import csv
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("out", type=Path)
    told = parser.parse_args()
    with told.manifest.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "train"]
    searched = sorted({row["label"] for row in rows})[1::3]
    for row in rows:
        if row["label"] in searched:
            asks = Path(row["path"]).parts[0] == "test"
            row.update(split="test", is_query=str(asks).lower(), is_gallery=str(not asks).lower())
        row["path"] = str((told.manifest.parent / row["path"]).resolve())
    with told.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"searched_classes: {len(searched)}")


if __name__ == "__main__":
    main()
