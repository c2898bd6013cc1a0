import typer
from typer.testing import CliRunner

from prunnet.cli.compare import compare
from prunnet.experiments import SUITES

app = typer.Typer()
app.command()(compare)


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_suites_are_listed_with_their_rows() -> None:
    lines = run("list").output.splitlines()
    assert [line.partition(":")[0] for line in lines] == [*SUITES, "edge-popup"]
    assert "sfsc+bct" in lines[1]


def test_a_dry_run_shows_what_is_left(tmp_path) -> None:
    result = run(
        "table1", "--preset", "omniglot-small", "--root", "omniglot", "--out", str(tmp_path), "--rates", "0.1,0.3",
        "--seeds", "0", "--rows", "o2o-sspl,prunnet-paper", "--set", "epochs=2", "--dry-run",
    )  # fmt: skip
    assert result.exit_code == 0 and not any(tmp_path.iterdir())
    assert "15 runs in" in result.output and "o2o-sspl" in result.output and "needs dense" in result.output
    assert result.output.splitlines()[-1] == "15 runs left"


def test_mistakes_are_one_line(tmp_path) -> None:
    assert "name the folder of the runs" in str(run("table1").exception)
    result = run("table1", "--out", str(tmp_path), "--rates", "fast")
    assert str(result.exception) == "--rates takes numbers with commas between them; found 'fast'"
