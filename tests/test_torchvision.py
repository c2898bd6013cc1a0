import subprocess
import sys


def test_timm_and_torchvision_import_after_the_workaround_and_twice_is_harmless() -> None:
    script = (
        "from prunnet._torchvision import require_torchvision as require\n"
        "require(); require()\n"
        "import timm, torchvision.transforms\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_nothing_is_declared_where_torchvision_loads_by_itself() -> None:
    script = (
        "import torch\n"
        "from prunnet import _torchvision\n"
        "_torchvision._declare_missing_operators()\n"  # now torchvision loads
        "declared = len(_torchvision._KEPT_ALIVE)\n"
        "_torchvision.require_torchvision()\n"
        "assert len(_torchvision._KEPT_ALIVE) == declared\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
