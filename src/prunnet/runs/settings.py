"""Settings as text: YAML files, `key=value` on a command line, and the `config.yaml` of a run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from prunnet.errors import ConfigError
from prunnet.runs.config import TrainConfig


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases: nine lines of them can ask for more memory than there is."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("settings have no use for aliases")
        return super().compose_node(parent, index)


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in a YAML file."""
    file = Path(path)
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _PlainLoader)
    except FileNotFoundError:
        raise ConfigError(f"{file} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read as text ({error})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError(f"{file} must hold settings, one `key: value` a line")
    return content


def parse_assignment(text: str) -> dict[str, Any]:
    """`lr=0.05` → {"lr": 0.05}; the value is YAML, and `backbone_options.in_chans=1` reaches into a mapping."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set takes key=value; found {text!r}")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {key}: {value!r} is no valid value") from None
    return {key.strip(): _number(parsed)}


def _number(value: Any) -> Any:
    """YAML reads 5e-4 as text, for want of a dot."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def merge_assignments(base: Mapping[str, Any], assignments: list[str]) -> dict[str, Any]:
    """`base` with every `key=value` applied in turn."""
    merged = dict(base)
    for text in assignments:
        for key, value in parse_assignment(text).items():
            name, dot, inner = key.partition(".")
            merged[name] = {**(merged.get(name) or {}), inner: value} if dot else value
    return merged


def stored_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in the `config.yaml` of a run; those of older runs in today's words."""
    settings = read_yaml(path)
    filters, maps = settings.pop("structured", False), settings.pop("score_maps", False)
    if filters or maps:
        settings["selection"] = "filters" if filters else "maps"
    if settings.get("alignment") == 0:  # a loss that is gone, and was not used
        del settings["alignment"]
    return {"allocation": "uniform", **settings}  # as it was before there was a choice


def to_yaml(config: TrainConfig) -> str:
    """The resolved configuration, as `--config` reads it."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
