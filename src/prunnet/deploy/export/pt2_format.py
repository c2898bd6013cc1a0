"""torch.export's archive, run by torch alone: neither timm nor prunnet is needed to load it."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from prunnet._torch_export import quiet
from prunnet.deploy.export.tracing import Program, Run
from prunnet.errors import ExportError, first_line

SUFFIXES = (".pt2",)
_EXTRA_FILE = "prunnet.json"


def write(program: Program, metadata: Mapping[str, str], files: Mapping[str, Path]) -> None:
    """Write `files[".pt2"]`."""
    archive = io.BytesIO()  # torch ends the process where its own writer meets a full disk
    with quiet():
        torch.export.save(program, archive, extra_files={_EXTRA_FILE: json.dumps(metadata)})
    files[".pt2"].write_bytes(archive.getbuffer())


def read(files: Mapping[str, Path]) -> tuple[Run, dict[str, str]]:
    """The module in torch, and its metadata. Only for what was just written: `torch.export.load` unpickles."""
    extra = {_EXTRA_FILE: ""}
    if not zipfile.is_zipfile(files[".pt2"]):  # torch would go on to try formats of the past
        raise ExportError(f"{files['.pt2']} is no torch.export archive, or is truncated")
    try:
        with files[".pt2"].open("rb") as file, quiet():
            module = torch.export.load(file, extra_files=extra).module()
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        raise ExportError(f"{files['.pt2']} is no torch.export archive: {first_line(error)}") from error
    return torch.inference_mode()(module), json.loads(extra[_EXTRA_FILE] or "{}")
