"""The VGG networks of Simonyan and Zisserman (2014), for large images and for small ones."""

from torch import nn

from phalanx.models.shapes import check_images

#: Convolutions in each of the five stages, by the number of layers with weights.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_CHANNELS = (64, 128, 256, 512, 512)
DEPTHS = tuple(_STAGES)

#: Each stage ends with a pooling that halves the image.
_SMALLEST = 2 ** len(_CHANNELS)


def build(
    *, input_shape: tuple[int, ...], classes: int, depth: int, batch_norm: bool = False
) -> nn.Sequential:
    """Five stages of 3×3 convolutions, each halved by pooling, and a classifier.

    Images that the stages leave one pixel of (32×32 to 63×63) get a single linear layer, as is
    usual for CIFAR; larger ones the published two hidden layers of 4096 over 7×7 pixels.
    """
    name = f"vgg{depth}{'-bn' if batch_norm else ''}"
    check_images(name, input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    width = input_shape[0]
    layers: list[nn.Module] = []
    for count, channels in zip(_STAGES[depth], _CHANNELS, strict=True):
        for _ in range(count):
            layers.append(nn.Conv2d(width, channels, kernel_size=3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(channels))
            layers.append(nn.ReLU())
            width = channels
        layers.append(nn.MaxPool2d(2))
    leaves_one_pixel = max(input_shape[1:]) < 2 * _SMALLEST
    layers += _small_classifier(classes) if leaves_one_pixel else _published_classifier(classes)
    model = nn.Sequential(*layers)
    model.apply(_initialise)
    return model


def _small_classifier(classes: int) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(_CHANNELS[-1], classes)]


def _published_classifier(classes: int) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(7), nn.Flatten()]
    for width in (_CHANNELS[-1] * 7 * 7, 4096):
        layers += [nn.Linear(width, 4096), nn.ReLU(), nn.Dropout()]
    return [*layers, nn.Linear(4096, classes)]


def _initialise(layer: nn.Module) -> None:
    """Keep a signal's size through all stages; with torch's defaults it fades, and vgg16 stalls."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=0.01)
    if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
        nn.init.zeros_(layer.bias)
