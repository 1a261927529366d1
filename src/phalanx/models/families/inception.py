"""Inception v3 of Szegedy et al. (2015), without its auxiliary classifier."""

from functools import partial

from torch import nn

from phalanx.models.families import units
from phalanx.models.families.units import Branches, classifier, sequential
from phalanx.models.shapes import check_images

#: What the published stem leaves a pixel of at the end; smaller images get another stem.
_PUBLISHED = 75

#: The two reductions leave 2×2 pixels of it.
_SMALLEST = 11

#: The published network's BatchNorm has an epsilon of its own.
_unit = partial(units.unit, epsilon=1e-3)


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Five convolutions, eleven inception blocks, one linear layer.

    Images below 75×75 pixels keep their size through the five convolutions, which reduce larger
    ones to an eighth.
    """
    check_images("inception-v3", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    large = min(input_shape[1:]) >= _PUBLISHED
    layers: list[nn.Module] = [
        *(_reducing_stem(input_shape[0]) if large else _keeping_stem(input_shape[0])),
        *(_block(192, 32), _block(256, 64), _block(288, 64)),
        _first_reduction(288),
        *(_wide_block(768, inner) for inner in (128, 160, 160, 192)),
        _second_reduction(768),
        *(_split_block(1280), _split_block(2048)),
    ]
    return sequential([*layers, *classifier(2048, classes, dropout=0.5)])


def _reducing_stem(width: int) -> list[nn.Module]:
    return [
        _unit(width, 32, kernel=3, stride=2, padding=0),
        _unit(32, 32, kernel=3, padding=0),
        _unit(32, 64, kernel=3),
        nn.MaxPool2d(3, stride=2),
        _unit(64, 80),
        _unit(80, 192, kernel=3, padding=0),
        nn.MaxPool2d(3, stride=2),
    ]


def _keeping_stem(width: int) -> list[nn.Module]:
    return [
        _unit(width, 32, kernel=3),
        _unit(32, 32, kernel=3),
        _unit(32, 64, kernel=3),
        _unit(64, 80),
        _unit(80, 192, kernel=3),
    ]


def _block(width: int, pooled: int) -> Branches:
    """Figure 5 of the paper; its first 3×3 pair is a 5×5 convolution in the published weights."""
    return Branches(
        _unit(width, 64),
        nn.Sequential(_unit(width, 48), _unit(48, 64, kernel=5)),
        nn.Sequential(_unit(width, 64), _unit(64, 96, kernel=3), _unit(96, 96, kernel=3)),
        nn.Sequential(_pooling(), _unit(width, pooled)),
    )


def _first_reduction(width: int) -> Branches:
    return Branches(
        _unit(width, 384, kernel=3, stride=2, padding=0),
        nn.Sequential(
            _unit(width, 64),
            _unit(64, 96, kernel=3),
            _unit(96, 96, kernel=3, stride=2, padding=0),
        ),
        nn.MaxPool2d(3, stride=2),
    )


def _wide_block(width: int, inner: int) -> Branches:
    """Figure 6 of the paper: 7×7 convolutions as rows and columns of seven."""
    row, column = (1, 7), (7, 1)
    return Branches(
        _unit(width, 192),
        nn.Sequential(
            _unit(width, inner),
            _unit(inner, inner, kernel=row),
            _unit(inner, 192, kernel=column),
        ),
        nn.Sequential(
            _unit(width, inner),
            _unit(inner, inner, kernel=column),
            _unit(inner, inner, kernel=row),
            _unit(inner, inner, kernel=column),
            _unit(inner, 192, kernel=row),
        ),
        nn.Sequential(_pooling(), _unit(width, 192)),
    )


def _second_reduction(width: int) -> Branches:
    return Branches(
        nn.Sequential(_unit(width, 192), _unit(192, 320, kernel=3, stride=2, padding=0)),
        nn.Sequential(
            _unit(width, 192),
            _unit(192, 192, kernel=(1, 7)),
            _unit(192, 192, kernel=(7, 1)),
            _unit(192, 192, kernel=3, stride=2, padding=0),
        ),
        nn.MaxPool2d(3, stride=2),
    )


def _split_block(width: int) -> Branches:
    """Figure 7 of the paper: the last convolutions of two branches split into rows and columns."""
    return Branches(
        _unit(width, 320),
        nn.Sequential(_unit(width, 384), _rows_and_columns()),
        nn.Sequential(_unit(width, 448), _unit(448, 384, kernel=3), _rows_and_columns()),
        nn.Sequential(_pooling(), _unit(width, 192)),
    )


def _rows_and_columns() -> Branches:
    return Branches(_unit(384, 384, kernel=(1, 3)), _unit(384, 384, kernel=(3, 1)))


def _pooling() -> nn.AvgPool2d:
    return nn.AvgPool2d(3, stride=1, padding=1)
