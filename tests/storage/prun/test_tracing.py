import torch
from tests.runtime.networks import EveryOperation
from torch import Tensor, nn

import prunnet
from prunnet.storage.prun.tracing import trace_program


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding="same", bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.conv(images)).mean((2, 3))


def test_inputs_are_numbered_by_value_and_tensor() -> None:
    net = prunnet.convert(Shared(), 2, preprocessing=prunnet.Preprocessing((3, 8, 8)))
    tensors = ["backbone.conv.weight", "head.norm.running_mean", "head.norm.running_var"]
    tensors += ["head.linear.weight", "head.linear.bias", "head.norm.weight", "head.norm.bias"]
    assert trace_program(net.backbone, net.head, (3, 8, 8), tensors) == [
        ("conv2d", (0, -1), (1, 1, 1, 1, 1, 1, 1, 1, 1)),
        ("relu", (1,), ()),
        ("mean", (2,), (2, 3)),
        ("reshape", (3,), (1, 4)),
        ("linear", (4, -4, -5), ()),
        ("batch_norm", (5, -6, -7, -2, -3), (1e-05,)),
    ]


def test_padding_becomes_the_convolutions_own() -> None:
    net = prunnet.convert(EveryOperation(), 2, preprocessing=prunnet.Preprocessing((3, 32, 32)))
    names = [name for name, _ in net.named_parameters()] + [name for name, _ in net.named_buffers()]
    program = trace_program(net.backbone, net.head, (3, 32, 32), names)
    assert program[0][0] == "conv2d" and program[0][2] == (2, 2, 1, 2, 1, 2, 1, 1, 1)
    assert [name for name, _, _ in program].count("pad") == 1


def test_tracing_leaves_the_network_as_it_was() -> None:
    net = prunnet.convert(Shared(), 2, preprocessing=prunnet.Preprocessing((3, 8, 8))).train()
    trace_program(net.backbone, net.head, (3, 8, 8), [name for name, _ in net.state_dict().items()])
    assert net.training and all(parameter.requires_grad for parameter in net.parameters())
