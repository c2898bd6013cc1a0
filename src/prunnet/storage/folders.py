"""What folders of networks have in common: a `config.json` that says what they are."""

import json
from pathlib import Path
from typing import Any

from prunnet.errors import FamilyError


def read_config(folder: Path, format: str, version: int) -> dict[str, Any]:
    """The `config.json` of a folder of this `format` (such as prunnet-family), or one line on what is wrong with it."""
    file, kind = folder / "config.json", format.removeprefix("prunnet-")
    if not file.is_file():
        raise FamilyError(f"{folder} is no {kind} folder: it has no config.json")
    try:
        config = json.loads(file.read_text())
    except (ValueError, OSError) as error:
        raise FamilyError(f"{file} is damaged ({error}); save the {kind} again") from error
    if not isinstance(config, dict) or config.get("format") != format:
        raise FamilyError(f"{folder} is no {kind} folder: its config.json does not say {format!r}")
    if not isinstance(config.get("version"), int) or config["version"] > version:
        raise FamilyError(
            f"{folder} has format version {config.get('version')}, this prunnet reads up to {version}; upgrade prunnet"
        )
    return config


def check_replaceable(folder: Path, format: str, version: int) -> None:
    """Refuse to write over anything but an empty folder or an earlier one of the same format."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        read_config(folder, format, version)
    except FamilyError:
        kind = format.removeprefix("prunnet-")
        raise FamilyError(f"{folder} exists and is no {kind} folder; choose another path") from None
