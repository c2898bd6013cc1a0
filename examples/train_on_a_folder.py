"""From a folder of labelled photos to a compatible family: python examples/train_on_a_folder.py photos/

photos/mug/0001.jpg  photos/mug/0002.jpg  photos/kettle/0001.jpg  …

A quarter of the classes is held out; the matrix says how well each size finds those, in whose gallery.
"""

import argparse
import sys
from pathlib import Path

import prunnet

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("--out", type=Path, default=Path("runs/folder"))
parser.add_argument("--backbone", default="resnet18", help="name of a timm model")
parser.add_argument("--pretrained", action="store_true", help="start from timm's weights; with few images always")
parser.add_argument("--size", type=int, default=224, help="pixels")
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--batch-size", type=int, default=64)
options = parser.parse_args()

data = prunnet.load_data(options.folder)
report = prunnet.data.check(data)
for finding in report.findings:
    print(f"{finding.severity}: {finding.problem} ({finding.count}), such as {finding.examples[0]}")
if not report.ok:
    sys.exit("mend these images first")

run = prunnet.train(
    options.backbone,
    options.folder,
    out=options.out,
    resume=prunnet.Run(options.out).exists,  # call it again after an interruption
    pretrained=options.pretrained,
    input_size=(3, options.size, options.size),
    epochs=options.epochs,
    batch_size=options.batch_size,
)
print(run.matrix)
check = run.matrix.check()
print(f"{check.pairs - len(check.violations)} of {check.pairs} pairs are compatible")
for violation in check.violations[:3]:
    print(f"  {violation.query} asking {violation.gallery}: {violation.cross_test:.3f} < {violation.self_test:.3f}")
