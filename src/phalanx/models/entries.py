"""What is known about each built-in model without torch: its name, its file and its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.models.options import ACTIVATION, HIDDEN, OUTPUT_ACTIVATION, STANDARDISE
from phalanx.options import Option


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """What is known about a model without building it.

    `module` names the file with its `build`; `fixed` are arguments that this name stands for, so
    that one file serves a family of models. Every model takes the option `init` besides its own.
    """

    name: str
    module: str
    summary: str
    options: tuple[Option, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)


#: The same as in the families' files, which import torch.
_VGG_DEPTHS = (11, 13, 16, 19)
_CIFAR_RESNET_DEPTHS = (20, 32, 44, 56, 110)
_RESNET_DEPTHS = (18, 34, 50, 101, 152)
_DENSENET_DEPTHS = (121, 161, 169, 201)


def _vgg(depth: int, *, batch_norm: bool) -> ModelEntry:
    return ModelEntry(
        name=f"vgg{depth}{'-bn' if batch_norm else ''}",
        module="phalanx.models.families.vgg",
        summary=f"VGG of {depth} layers{' with BatchNorm' if batch_norm else ''}; "
        "for images of 32×32 pixels or more",
        fixed={"depth": depth, "batch_norm": batch_norm},
    )


def _cifar_resnet(depth: int) -> ModelEntry:
    return ModelEntry(
        name=f"resnet{depth}",
        module="phalanx.models.families.resnet",
        summary=f"residual network of {depth} layers, as for CIFAR-10; "
        "for images of 8×8 pixels or more",
        fixed={"depth": depth},
    )


def _resnet(depth: int) -> ModelEntry:
    return ModelEntry(
        name=f"resnet{depth}",
        module="phalanx.models.families.resnet_imagenet",
        summary=f"residual network of {depth} layers, as for ImageNet; "
        "for images of 16×16 pixels or more",
        fixed={"depth": depth},
    )


def _densenet(depth: int) -> ModelEntry:
    return ModelEntry(
        name=f"densenet{depth}",
        module="phalanx.models.families.densenet",
        summary=f"densely connected network of {depth} layers; for images of 16×16 pixels or more",
        fixed={"depth": depth},
    )


ENTRIES = (
    ModelEntry(
        name="logistic",
        module="phalanx.models.families.mlp",
        summary="logistic regression: one linear layer over inputs of any shape",
        fixed={"hidden": ()},
    ),
    ModelEntry(
        name="mlp",
        module="phalanx.models.families.mlp",
        summary="fully connected layers over inputs of any shape",
        options=(HIDDEN, ACTIVATION, OUTPUT_ACTIVATION, STANDARDISE),
    ),
    ModelEntry(
        name="simplecnn",
        module="phalanx.models.families.simplecnn",
        summary="two 3×3 convolutions, one pooling, two linear layers; "
        "for images of 2×2 pixels or more",
    ),
    ModelEntry(
        name="lenet5",
        module="phalanx.models.families.lenet5",
        summary="LeNet-5: two 5×5 convolutions, three linear layers; "
        "for images of 12×12 pixels or more",
    ),
    ModelEntry(
        name="alexnet",
        module="phalanx.models.families.alexnet",
        summary="AlexNet: five convolutions; for images of 16×16 pixels or more",
    ),
    *(_vgg(depth, batch_norm=batch_norm) for batch_norm in (False, True) for depth in _VGG_DEPTHS),
    *(_cifar_resnet(depth) for depth in _CIFAR_RESNET_DEPTHS),
    *(_resnet(depth) for depth in _RESNET_DEPTHS),
    *(_densenet(depth) for depth in _DENSENET_DEPTHS),
    ModelEntry(
        name="googlenet",
        module="phalanx.models.families.googlenet",
        summary="GoogLeNet with BatchNorm; for images of 8×8 pixels or more",
    ),
    ModelEntry(
        name="inception-v3",
        module="phalanx.models.families.inception",
        summary="Inception v3; for images of 11×11 pixels or more",
    ),
    ModelEntry(
        name="mobilenet-v1",
        module="phalanx.models.families.mobilenet",
        summary="MobileNet v1: separable convolutions; for images of 17×17 pixels or more",
    ),
)
