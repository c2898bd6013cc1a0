"""Compiles the runtime's C library into the package where there is a C compiler; without one it is left out."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / "src" / "prunnet" / "runtime"
        compiling = _module(folder / "compiling.py")
        target = folder / "c" / compiling.library_name()  # beside the modules it would be taken for one
        try:
            if not target.is_file():
                compiling.compile_library(target)
        except compiling.CompileError as error:
            self.app.display_warning(f"the runtime is left out: {error}; it is compiled when it is first used")
            return
        build_data["artifacts"].append(f"src/prunnet/runtime/c/{target.name}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
