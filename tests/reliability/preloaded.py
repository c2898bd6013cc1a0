"""What the commands import on their way, so that a process that is to die need not."""

import faiss  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import typer.testing  # noqa: F401

import prunnet.cli.command
import prunnet.deploy
import prunnet.experiments  # noqa: F401
from prunnet._torchvision import require_torchvision

require_torchvision()

import timm  # noqa: E402, F401
import torchvision  # noqa: E402, F401
