"""The shape of the package: what importing costs, and who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import prunnet

SOURCE = Path(prunnet.__file__).parent
HEAVY = {"torch", "timm", "torchvision", "matplotlib", "numpy", "pydantic", "safetensors"}

# A room may import those in lines above its own; evaluation is needed by training, which ends with a matrix.
ORDER = [
    {"network", "gradients", "data"},
    {"methods", "evaluation"},
    {"training"},
    {"deploy"},
    {"report", "experiments"},
    {"cli"},
]


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


def rooms_imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("prunnet."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("prunnet.")}
    return found


def test_rooms_import_one_way() -> None:
    level = {room: index for index, rooms in enumerate(ORDER) for room in rooms}
    rooms = {folder.name for folder in SOURCE.iterdir() if folder.is_dir() and (folder / "__init__.py").exists()}
    assert rooms <= level.keys()
    upwards = [
        f"{file.relative_to(SOURCE)} imports {other}"
        for room in rooms
        for file in (SOURCE / room).rglob("*.py")
        for other in rooms_imported(file) - {room}
        if other in level and level[other] >= level[room]
    ]
    assert upwards == []
