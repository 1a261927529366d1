"""What a model does with its activations: runs of steps, each the only one to read the last one's.

Split layers need to know what lies between them. A model that `torch.fx` can trace tells exactly.
One that it cannot, because its Python depends on the data, tells by its `nn.Sequential`s alone.
"""

import operator
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import fx, nn

from phalanx.models.attention import CausalHeads
from phalanx.models.modes import have_train, kept_modes

#: `elementwise` and `channelwise` work on a slice of features or of channels as on the whole,
#: `heads` on some heads of attention as on all.
Kind = Literal[
    "layer", "norm", "dropout", "elementwise", "channelwise", "heads", "flatten", "unknown"
]

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_LAYERS = (nn.Linear, nn.Conv2d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_DROPOUTS = (nn.Dropout, nn.Dropout2d)
_ELEMENTWISE = (
    *(nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU),
    *(nn.Mish, nn.Tanh, nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Tanhshrink),
    *(nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Hardshrink, nn.Softshrink, nn.Threshold),
)
_CHANNELWISE = (
    *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.LPPool2d),
    *(nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d),
)
_FUNCTIONS: dict[Any, Kind] = {
    **dict.fromkeys((torch.relu, torch.tanh, torch.sigmoid), "elementwise"),
    **dict.fromkeys((F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.gelu), "elementwise"),
    **dict.fromkeys((F.silu, F.mish, F.tanh, F.sigmoid, F.softplus, F.hardtanh), "elementwise"),
    **dict.fromkeys((F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d), "channelwise"),
}
_METHODS: dict[Any, Kind] = dict.fromkeys(("relu", "tanh", "sigmoid"), "elementwise")

#: How code reaches weights without calling their layer.
_WEIGHT_NAMES = frozenset(
    {"weight", "bias", "parameters", "named_parameters", "_parameters", "state_dict"}
)


@dataclass(frozen=True)
class Step:
    """One thing done to an activation; it has a module's name, if a module that can be split."""

    kind: Kind
    name: str = ""


@dataclass(frozen=True)
class Run:
    """Steps one after the other, each the only reader of what the one before it makes."""

    steps: list[Step]
    #: The `nn.Sequential` they are known from, if that is all that is known.
    container: str | None = None


def find_runs(model: nn.Module) -> list[Run]:
    """The runs of a model. Every layer that can be split is in one of them, once."""
    steps = ModuleSteps(model)
    graph = _trace(model)
    if graph is None:
        return _runs_of_containers(model, steps)
    return _runs_of_graph(graph, steps)


class ModuleSteps:
    """The modules of a model as steps; those that must not be touched are `unknown`."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = dict(model.named_modules())
        self.names = {module: name for name, module in self._modules.items()}
        uses = Counter(
            id(parameter)
            for module in self._modules.values()
            for parameter in module._parameters.values()
            if parameter is not None
        )
        self._tied = {identity for identity, count in uses.items() if count > 1}

    def step(self, name: str) -> Step:
        """What a module does, and its name if it may be split."""
        module = self._modules[name]
        kind = _kind_of_module(module)
        if _is_customised(module) or any(id(one) in self._tied for one in module.parameters()):
            return Step("unknown")
        return Step(kind, name if kind in ("layer", "norm", "dropout", "heads") else "")


def _kind_of_module(module: nn.Module) -> Kind:
    # Subclasses may do anything, and so are unknown.
    if type(module) in _LAYERS:
        return "layer" if getattr(module, "groups", 1) == 1 else "unknown"
    if type(module) in _CHANNELWISE:
        return "unknown" if getattr(module, "return_indices", False) else "channelwise"
    if type(module) is nn.Flatten:
        return "flatten" if (module.start_dim, module.end_dim) == (1, -1) else "unknown"
    if type(module) is CausalHeads:
        return "heads"
    for kinds, kind in ((_NORMS, "norm"), (_DROPOUTS, "dropout"), (_ELEMENTWISE, "elementwise")):
        if type(module) in kinds:
            return kind  # type: ignore[return-value]
    return "unknown"


def _is_customised(module: nn.Module) -> bool:
    """Whether anything but the class's own forward happens when the module is called."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return "forward" in vars(module) or any(hooks)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) is CausalHeads or super().is_leaf_module(m, module_qualified_name)


def _trace(model: nn.Module) -> fx.Graph | None:
    """The graph of the model as it trains; None if it has none that holds for all inputs."""
    try:
        with kept_modes(model), torch.random.fork_rng(devices=[]):
            have_train(model)
            return _Tracer().trace(model)
    except Exception:  # whatever a model's own code does about tensors that have no values
        return None


def _runs_of_graph(graph: fx.Graph, steps: ModuleSteps) -> list[Run]:
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    touched = {node.target.rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}

    def step(node: fx.Node) -> Step:
        if node.op != "call_module":
            return Step(_kind_of_call(node))
        found = steps.step(str(node.target))
        if found.name and (calls[node.target] > 1 or node.target in touched):
            return Step("unknown")
        return found if len(node.args) == 1 and not node.kwargs else Step("unknown")

    runs: list[Run] = []
    seen: set[fx.Node] = set()
    for first in graph.nodes:
        node: fx.Node | None = first
        run: list[Step] = []
        while node is not None and node not in seen:
            seen.add(node)
            run.append(step(node))
            node = _only_reader(node)
        runs.append(Run(run))
    return runs


def _only_reader(node: fx.Node) -> fx.Node | None:
    """The one node that reads this one's values, if it reads no other's."""
    readers = [user for user in node.users if not _reads_batch_size(user)]
    if len(readers) != 1 or readers[0].op == "output":
        return None
    inputs = [one for one in readers[0].all_input_nodes if not _is_batch_size(one)]
    return readers[0] if inputs == [node] else None


def _is_batch_size(node: fx.Node) -> bool:
    if node.op == "call_method" and node.target == "size":
        return node.args[1:] == (0,)
    is_item = node.op == "call_function" and node.target is operator.getitem
    return is_item and _is_shape(node.args[0]) and node.args[1:] == (0,)


def _reads_batch_size(node: fx.Node) -> bool:
    """Whether a node asks for nothing but the number of samples, which no split changes."""
    return _is_batch_size(node) or (_is_shape(node) and all(map(_is_batch_size, node.users)))


def _is_shape(node: object) -> bool:
    if not isinstance(node, fx.Node):
        return False
    if node.op == "call_method":
        return node.target == "size" and len(node.args) == 1
    return node.target is getattr and node.args[1] == "shape"


def _kind_of_call(node: fx.Node) -> Kind:
    """What a function or a method does to the activation that it gets first."""
    rest = node.args[1:]
    if node.target in (torch.flatten, "flatten"):
        return "flatten" if rest in ((1,), (1, -1)) and not node.kwargs else "unknown"
    if node.op == "call_method" and node.target in ("view", "reshape"):
        flattens = len(rest) == 2 and isinstance(rest[0], fx.Node) and rest[1] == -1
        return "flatten" if flattens else "unknown"
    if node.kwargs.get("return_indices"):
        return "unknown"
    known = {"call_function": _FUNCTIONS, "call_method": _METHODS}.get(node.op, {})
    return known.get(node.target, "unknown")


def _runs_of_containers(model: nn.Module, steps: ModuleSteps) -> list[Run]:
    """Each `nn.Sequential` is a run; a layer elsewhere is alone, if its weights are not read."""
    if any(_reads_weights(type(module)) for module in model.modules()):
        return []
    places = Counter(child for module in model.modules() for child in _children(module))

    def step(module: nn.Module) -> Step:
        return steps.step(steps.names[module]) if places[module] <= 1 else Step("unknown")

    runs: list[Run] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if type(module) is nn.Sequential and module not in inside:
            inside.update(module.modules())
            leaves = [step(leaf) for leaf in _leaves(module)]
            runs.append(Run(leaves, container=steps.names[module]))
    alone = (module for module in _owned_by_users(model) if module not in inside)
    return runs + [Run([step(module)]) for module in alone]


def _children(module: nn.Module) -> Iterator[nn.Module]:
    """As `children`, but a module that is there twice comes twice."""
    return (child for child in module._modules.values() if child is not None)


def _leaves(container: nn.Module) -> Iterator[nn.Module]:
    """What a container calls, one after the other, through containers inside it."""
    for child in _children(container):
        if type(child) is nn.Sequential and not _is_customised(child):
            yield from _leaves(child)
        else:
            yield child


def _owned_by_users(module: nn.Module) -> Iterator[nn.Module]:
    """All layers but those inside torch's own modules, which may use weights in other ways."""
    if type(module) in _LAYERS:
        yield module
    elif type(module) in _CONTAINERS or not _is_from_torch(type(module)):
        for child in module.children():
            yield from _owned_by_users(child)


def _is_from_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.")


def _reads_weights(kind: type[nn.Module]) -> bool:
    """Whether a user's class mentions weights anywhere but where it is made."""
    functions = [
        function
        for ancestor in kind.__mro__
        if ancestor is not object and not _is_from_torch(ancestor)
        for name, function in vars(ancestor).items()
        if name != "__init__" and isinstance(function, FunctionType)
    ]
    return any(_WEIGHT_NAMES & set(function.__code__.co_names) for function in functions)
