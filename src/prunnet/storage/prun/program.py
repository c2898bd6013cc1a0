"""The program of a `.prun` file: what a device does with an image, as a short list of operations.

An operation is a name, its inputs and its numbers: `["conv2d", [0, -1], [2, 2, 3, 3, 3, 3, 1, 1, 1]]`. Input 0 is the
image, input i > 0 the result of the i-th operation, input -k the k-th tensor of the header (layers, then statistics,
then rest). The last result is the embedding before it is normalised. docs/prun-format.md has the table.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from prunnet.errors import FamilyError

MOST_OPERATIONS = 2**14
MOST_NUMBERS = 16

Name = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,32}$")]
Inputs = Annotated[tuple[int, ...], Field(max_length=64)]
Numbers = Annotated[tuple[int | float, ...], Field(max_length=MOST_NUMBERS)]

Operation = tuple[Name, Inputs, Numbers]
Program = Annotated[tuple[Operation, ...], Field(min_length=1, max_length=MOST_OPERATIONS)]


class Form(NamedTuple):
    """How many inputs and numbers an operation takes: at least, at most."""

    inputs: tuple[int, int]
    numbers: tuple[int, int]


OPERATIONS = {
    "conv2d": Form((2, 3), (9, 9)),  # x, weight, bias · stride, padding (top, bottom, left, right), dilation, groups
    "batch_norm": Form((5, 5), (1, 1)),  # x, weight, bias, mean, variance · epsilon
    "linear": Form((2, 3), (0, 0)),  # x, weight, bias
    "layer_norm": Form((3, 3), (1, 1)),  # x, weight, bias · epsilon
    "relu": Form((1, 1), (0, 0)),
    "relu6": Form((1, 1), (0, 0)),
    "leaky_relu": Form((1, 1), (1, 1)),
    "silu": Form((1, 1), (0, 0)),
    "gelu": Form((1, 1), (0, 0)),
    "gelu_tanh": Form((1, 1), (0, 0)),
    "hardswish": Form((1, 1), (0, 0)),
    "hardsigmoid": Form((1, 1), (0, 0)),
    "sigmoid": Form((1, 1), (0, 0)),
    "tanh": Form((1, 1), (0, 0)),
    "add": Form((2, 2), (0, 0)),
    "mul": Form((2, 2), (0, 0)),
    "max_pool2d": Form((1, 1), (6, 6)),  # x · kernel, stride, padding
    "avg_pool2d": Form((1, 1), (7, 7)),  # x · kernel, stride, padding, whether padding counts
    "mean": Form((1, 1), (1, 6)),  # x · dimensions, which become 1
    "pad": Form((1, 1), (4, 4)),  # x · zeros at top, bottom, left, right
    "reshape": Form((1, 1), (1, 6)),  # x · shape
    "permute": Form((1, 1), (1, 6)),  # x · dimensions
    "slice": Form((1, 1), (3, 3)),  # x · dimension, start, length
    "concat": Form((1, 64), (1, 1)),  # parts · dimension
    "attention": Form((3, 3), (1, 1)),  # queries, keys, values · scale
}


def check_program(program: Sequence[Operation], tensors: int) -> None:
    """Refuse operations that nobody knows, or inputs that are not there; a runtime checks the shapes."""
    for index, (name, inputs, numbers) in enumerate(program):
        form = OPERATIONS.get(name)
        where = f"operation {index} of its program"
        if form is None:
            raise FamilyError(f"{where} is {name}, which this version does not know")
        if not form.inputs[0] <= len(inputs) <= form.inputs[1]:
            raise FamilyError(f"{where}, {name}, has {len(inputs)} inputs")
        if not form.numbers[0] <= len(numbers) <= form.numbers[1]:
            raise FamilyError(f"{where}, {name}, has {len(numbers)} numbers")
        if not all(-tensors <= value <= index for value in inputs):
            raise FamilyError(f"{where}, {name}, has an input that is not there")
