"""The shape of the package: what importing costs, who may import whom, and what is public."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

import prunnet
from prunnet.cli.command import app

SOURCE = Path(prunnet.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"torch", "timm", "torchvision", "matplotlib", "numpy", "pydantic", "safetensors"}

ORDER = [
    {"network", "gradients", "data"},
    {"structured", "narrow"},
    {"costs"},
    {"storage"},
    {"methods", "evaluation"},
    {"runs"},
    {"training"},
    {"runtime"},
    {"deploy"},
    {"search"},
    {"serve"},
    {"experiments", "report"},
    {"demo"},
    {"cli"},
]
"""A room may import those in lines above its own; a module beside them is a room too."""
BELOW_ALL = {
    "_checked",
    "_devices",
    "_files",
    "_pictures",
    "_progress",
    "_timing",
    "_torch_export",
    "_torchvision",
}
UPWARDS = {"network/family.py": {"storage"}}
"""`Family.save` is `prunnet.save`, looked up when it is called."""
LEVEL = {room: level for level, rooms in enumerate([{"errors"}, BELOW_ALL, *ORDER]) for room in rooms}


def imported_by(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    return {name.partition(".")[0] for name in loaded.splitlines()[-1].split()}


@pytest.mark.parametrize("code", ["import prunnet", "import prunnet.cli"])
def test_importing_loads_nothing_heavy(code: str) -> None:
    assert not imported_by(code) & HEAVY


def test_every_public_name_resolves() -> None:
    assert all(getattr(prunnet, name) is not None for name in prunnet.__all__)
    assert set(prunnet.__all__) == set(dir(prunnet))
    with pytest.raises(AttributeError, match="no attribute 'prune_rate'"):
        _ = prunnet.prune_rate


REACH = """
import os, sys
import torch  # once for all; of prunnet nothing is imported before a fork
for room in sys.argv[1:]:
    if os.fork() == 0:
        import prunnet
        print(getattr(prunnet, room).__name__, flush=True)
        os._exit(0)
    os.wait()
"""


def test_every_room_is_reachable_after_a_plain_import() -> None:
    rooms = sorted(LEVEL.keys() - BELOW_ALL - {"cli"})
    reached = subprocess.run([sys.executable, "-c", REACH, *rooms], capture_output=True, text=True)
    assert reached.stdout.split() == [f"prunnet.{room}" for room in rooms], reached.stderr


def test_every_command_is_a_public_name() -> None:
    for verb in typer.main.get_command(app).commands:
        assert verb in prunnet.__all__
        public = getattr(prunnet, verb)
        assert callable(public) or isinstance(public, ModuleType)


def room_of(file: Path) -> str:
    """The first part of its path; the package itself has no name."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules_imported(file: Path) -> Iterator[str]:
    """Full names, wherever in the file; `import prunnet` counts as what is then asked of it."""
    tree = ast.parse(file.read_text())
    package = ["prunnet", *file.relative_to(SOURCE).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "prunnet":
            yield f"prunnet.{prunnet._EXPORTS.get(node.attr, node.attr)}"


def rooms_imported(file: Path) -> set[str]:
    names = (name.split(".") for name in modules_imported(file))
    return {name[1] for name in names if name[0] == "prunnet" and len(name) > 1} & LEVEL.keys()


def test_every_module_has_a_place_in_the_order() -> None:
    assert {room_of(file) for file in FILES} - {"__init__", "__main__"} == LEVEL.keys()


def test_rooms_import_one_way() -> None:
    upwards = {
        str(file.relative_to(SOURCE)): other
        for file in FILES
        if (room := room_of(file)) in LEVEL
        and (other := {name for name in rooms_imported(file) - {room} if LEVEL[name] >= LEVEL[room]})
    }
    assert upwards == UPWARDS


def names_bound(init: Path) -> Iterator[tuple[str, str | None]]:
    """What a package calls its own, with the full name of where it was imported from."""
    for node in ast.walk(ast.parse(init.read_text())):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield name.asname or name.name, f"{node.module}.{name.name}"
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, None


def test_no_package_hides_a_module_of_its_own_behind_another_name() -> None:
    hidden = []
    for init in SOURCE.rglob("__init__.py"):
        package = ".".join(["prunnet", *init.parent.relative_to(SOURCE).parts])
        modules = {
            path.stem for path in init.parent.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
        }
        hidden += [
            f"{package}.{name}"
            for name, origin in names_bound(init)
            if name in modules and origin != f"{package}.{name}"
        ]
    assert hidden == []


def test_every_public_name_is_in_the_reference() -> None:
    page = (SOURCE.parent.parent / "docs" / "reference.md").read_text()
    listed = re.findall(r"^::: prunnet\.(.+)$", page, flags=re.MULTILINE)
    assert prunnet._EXPORTS.keys() <= set(listed)
    for name in listed:
        attrgetter(name)(prunnet)
