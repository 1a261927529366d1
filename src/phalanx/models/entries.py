"""What is known about each built-in model without torch: its name, its file and its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.models.options import (
    ACTIVATION,
    ATTENTION_HEADS,
    BLOCKS,
    DROPOUT_RATE,
    EMBEDDING_SIZE,
    HIDDEN,
    OUTPUT_ACTIVATION,
    STANDARDISE,
)
from phalanx.options import Option


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """What is known about a model without building it.

    `module` names the file with its `build`; `fixed` are arguments that this name stands for, so
    that one file serves a family of models. Every model takes the option `init` besides its own.
    `learning_rate` is Adam's when a user names none; a network that is `deep` learns from fewer
    epochs, each of which takes long.
    """

    name: str
    module: str
    summary: str
    options: tuple[Option, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)
    #: Whether it reads the numbers of tokens, and answers for each of them.
    reads_tokens: bool = False
    learning_rate: float = 0.001
    deep: bool = False


#: The same as in the families' files, which import torch.
_VGG_DEPTHS = (11, 13, 16, 19)
_CIFAR_RESNET_DEPTHS = (20, 32, 44, 56, 110, 1202)
_RESNET_DEPTHS = (18, 34, 50, 101, 152)
_DENSENET_DEPTHS = (121, 161, 169, 201)


def _vgg(depth: int, *, batch_norm: bool) -> ModelEntry:
    return ModelEntry(
        name=f"vgg{depth}{'-bn' if batch_norm else ''}",
        module="phalanx.models.families.vgg",
        summary=f"VGG of {depth} layers{' with BatchNorm' if batch_norm else ''}; "
        "for images of 32×32 pixels or more",
        fixed={"depth": depth, "batch_norm": batch_norm},
        deep=True,
    )


def _cifar_resnet(depth: int) -> ModelEntry:
    return ModelEntry(
        name=f"resnet{depth}",
        module="phalanx.models.families.resnet",
        summary=f"residual network of {depth} layers, as for CIFAR-10; "
        "for images of 8×8 pixels or more",
        fixed={"depth": depth},
        deep=True,
    )


def _resnet(depth: int) -> ModelEntry:
    return ModelEntry(
        name=f"resnet{depth}",
        module="phalanx.models.families.resnet_imagenet",
        summary=f"residual network of {depth} layers, as for ImageNet; "
        "for images of 16×16 pixels or more",
        fixed={"depth": depth},
        deep=True,
    )


def _densenet(depth: int) -> ModelEntry:
    return ModelEntry(
        name=f"densenet{depth}",
        module="phalanx.models.families.densenet",
        summary=f"densely connected network of {depth} layers; for images of 16×16 pixels or more",
        fixed={"depth": depth},
        deep=True,
    )


def _pydtnn(name: str, summary: str, *, smallest: int, **fixed: object) -> ModelEntry:
    return ModelEntry(
        name=f"pydtnn-{name}",
        module="phalanx.models.families.pydtnn",
        summary=f"PyDTNN's {summary}; for images of {smallest}×{smallest} pixels or more",
        fixed={"name": f"pydtnn-{name}", **fixed},
    )


_PYDTNN = (
    _pydtnn("simplecnn", "simplecnn: 3×3 convolutions without padding", smallest=6),
    _pydtnn(
        "simplecnn-dropout",
        "later simplecnn: padded, half of the hidden units dropped",
        smallest=2,
        padding=1,
        dropout=0.5,
    ),
    _pydtnn("vgg1", "vgg1: two convolutions, one pooling", smallest=2, stages=1),
    _pydtnn("vgg2", "vgg2: four convolutions, two poolings", smallest=4, stages=2),
    _pydtnn("vgg3", "vgg3: six convolutions, three poolings", smallest=8, stages=3),
    _pydtnn("vgg3do", "vgg3 with dropout", smallest=8, stages=3, dropout=(0.2, 0.2, 0.2, 0.2)),
    _pydtnn(
        "vgg3do2",
        "vgg3 with more and more dropout",
        smallest=8,
        stages=3,
        dropout=(0.2, 0.3, 0.4, 0.5),
    ),
    _pydtnn(
        "vgg3dobn",
        "vgg3 with dropout and BatchNorm",
        smallest=8,
        stages=3,
        width=512,
        dropout=(0.2, 0.3, 0.4, 0.5),
        batch_norm=True,
    ),
)

ENTRIES = (
    ModelEntry(
        name="logistic",
        module="phalanx.models.families.mlp",
        summary="logistic regression: one linear layer over inputs of any shape",
        fixed={"hidden": ()},
        learning_rate=0.01,
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
        deep=True,
    ),
    *(_vgg(depth, batch_norm=batch_norm) for batch_norm in (False, True) for depth in _VGG_DEPTHS),
    *(_cifar_resnet(depth) for depth in _CIFAR_RESNET_DEPTHS),
    *(_resnet(depth) for depth in _RESNET_DEPTHS),
    *(_densenet(depth) for depth in _DENSENET_DEPTHS),
    ModelEntry(
        name="densenet121-k12",
        module="phalanx.models.families.densenet",
        summary="densenet121 whose layers add 12 channels, not 32, as for CIFAR-10; "
        "for images of 16×16 pixels or more",
        fixed={"depth": 121, "growth": 12},
        deep=True,
    ),
    ModelEntry(
        name="googlenet",
        module="phalanx.models.families.googlenet",
        summary="GoogLeNet with BatchNorm; for images of 8×8 pixels or more",
        deep=True,
    ),
    ModelEntry(
        name="inception-v3",
        module="phalanx.models.families.inception",
        summary="Inception v3; for images of 11×11 pixels or more",
        deep=True,
    ),
    ModelEntry(
        name="mobilenet-v1",
        module="phalanx.models.families.mobilenet",
        summary="MobileNet v1: separable convolutions; for images of 17×17 pixels or more",
        deep=True,
    ),
    *_PYDTNN,
    ModelEntry(
        name="transformer",
        module="phalanx.models.families.transformer",
        summary="decoder-only transformer, as GPT: the next token of a text; for data set text",
        options=(BLOCKS, ATTENTION_HEADS, EMBEDDING_SIZE, DROPOUT_RATE),
        reads_tokens=True,
        learning_rate=0.003,
    ),
)
