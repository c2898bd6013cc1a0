"""Files for other runtimes: ONNX, torch.export and OpenVINO, each checked against torch before it gets its name."""

from prunnet.deploy.export.exported import ExportedNetwork, load_exported
from prunnet.deploy.export.exporting import export

__all__ = ["ExportedNetwork", "export", "load_exported"]
