"""The trainer: a model, an optimizer and a strategy's worker, and where their training stands."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.comm.device.on_device import on_device
from phalanx.comm.script import world
from phalanx.data.batches import Batch
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.settings.metrics import check_metrics
from phalanx.state import State, gather
from phalanx.state.model import parameter_names
from phalanx.state.optimizer import write_entries, write_groups
from phalanx.strategies.base import Loss, Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.in_pieces import mark_whole
from phalanx.train import evaluation
from phalanx.train.binding import bind, choose, trained_parameters
from phalanx.train.compute import MemoryFormat, device_of, lay_out
from phalanx.train.epoch import Epoch
from phalanx.train.fit_loop import Companion, FitLoop
from phalanx.train.losses import as_loss
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.position import Position
from phalanx.train.progress import Progress, Silent
from phalanx.train.schedules import Schedule
from phalanx.train.stopping import BestWeights, Stopping

log = logging.getLogger("phalanx.train")


class Trainer(AbstractContextManager["Trainer"]):
    """Trains any `nn.Module` with any strategy, on all ranks of this job.

    Every rank makes one, with the same arguments; all its methods are collective. The model and
    the optimizer are used as in plain torch: the optimizer holds the model's parameters. A model
    that is on a GPU is trained there. Close it, or use it in a `with` block, to give communicators
    and shared memory back.

    With `shards`, every global batch is cut into so many parts whatever the number of ranks, and
    the weights are bit for bit the same on any number of ranks up to it, if all use as many
    threads. `clip_norm` clips gradients by their global norm. `accumulate` computes each part in so
    many passes, which saves memory; only BatchNorm can tell. `compile` compiles forward and
    backward into one function if that turns out faster. With `autocast` forward passes compute in
    that dtype where torch deems it safe. `memory_format` is how images are laid out: `preserve`
    leaves a model as it is, to the last bit. `metrics` names what is measured besides loss and
    accuracy.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        loss: Loss | str | Callable[[Tensor, Tensor], Tensor] = "cross-entropy",
        strategy: Strategy | str | None = None,
        comm: Communicator | None = None,
        seed: int = 0,
        shards: int | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        compile: bool = False,  # noqa: A002
        autocast: torch.dtype | None = None,
        memory_format: MemoryFormat = "auto",
        metrics: Sequence[str] = (),
    ) -> None:
        """Collective."""
        check_metrics(tuple(metrics))
        lay_out(model, memory_format)
        self.model, self.optimizer = model, optimizer
        self.device = device_of(model)
        self.comm = on_device(world(), self.device) if comm is None else comm
        self.seed = seed
        self._task = Task(
            model, optimizer, as_loss(loss), seed, shards, clip_norm, accumulate, compile, autocast
        )
        #: Where the training stands, and what the epoch under way has come to so far.
        self.position = Position()
        self.meter = Meter(metrics)
        self._metrics = tuple(metrics)
        self._companions: list[Companion] = []
        self._loaded: State | None = None
        self._restored = False
        self._bind(choose(strategy, self.comm, self._task))

    def _bind(self, strategy: Strategy) -> None:
        """Collective. Get this rank's worker."""
        self._strategy = strategy
        self._worker: Worker | None = bind(strategy, self.comm, self._task)
        self._parameters = trained_parameters(self.model, self.optimizer)

    @property
    def worker(self) -> Worker:
        """This rank's part in the strategy."""
        if self._worker is None:
            raise UsageError("this Trainer was closed: make a new one")
        return self._worker

    @property
    def trains(self) -> bool:
        """Whether this rank computes gradients, or only serves those that do."""
        return self.worker.trains

    @property
    def dtype(self) -> torch.dtype:
        """What inputs are cast to: the dtype of the model's first parameter."""
        first: Tensor | None = next(self.model.parameters(), None)
        return torch.get_default_dtype() if first is None else first.dtype

    def fit(
        self,
        train: Split,
        *,
        epochs: int,
        batch_size: int,
        steps: int | None = None,
        validation: Split | None = None,
        steps_per_epoch: int | None = None,
        schedule: Schedule | None = None,
        stopping: Stopping | None = None,
        keep_best: bool = False,
        progress: Progress | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[Epoch]:
        """Collective. Train on, for so many epochs; `batch_size` is the global one.

        A second call goes on where the first ended. `steps` ends the call after so many steps, in
        an epoch if need be; `steps_per_epoch` ends an epoch before all samples have been seen.
        `keep_best` ends with the weights of the epoch with the lowest loss. `on_epoch` is called on
        every rank with each epoch as soon as it is done.
        """
        self._check_parameters()
        loop = FitLoop(
            trainer=self,
            train=train,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            validation=validation,
            schedule=schedule,
            stopping=stopping,
            best=BestWeights() if keep_best else None,
            progress=Silent() if progress is None else progress,
            on_epoch=on_epoch,
        )
        self._take_along(loop.companions)
        return loop.run(epochs=epochs, steps=steps)

    def _check_parameters(self) -> None:
        if trained_parameters(self.model, self.optimizer) != self._parameters:
            raise UsageError(
                "parameters have been frozen, set free, added or taken away since this Trainer was "
                "made: make a new one (gather_optimizer_state() before has it go on from there)"
            )

    def _take_along(self, companions: list[Companion]) -> None:
        """Have what goes along with the training go on from where a state was loaded."""
        self._companions = companions
        if self._loaded is not None:
            for one in companions:
                one.load(self._loaded)
            # Making a schedule has set learning rates anew.
            write_groups(self.optimizer, self._loaded)
            self._loaded = None

    def begin_epoch(self) -> None:
        """Get ready to train: an epoch, or what is left of one."""
        self._restored = False
        self.model.train()
        if not self.position.inside_epoch:
            self.meter = Meter(self._metrics)

    def step(self, batch: Batch) -> Outcome:
        """Collective. One step on a global batch; this rank's part of its outcome."""
        outcome = self.worker.step(batch)
        # Schedulers warn when the optimizer that they know has not stepped: strategies may step
        # slices of it instead, or have another rank do it.
        self.optimizer._opt_called = True  # type: ignore[attr-defined]
        self.position.after_step(batch.size)
        return outcome

    def use(self, best: BestWeights) -> None:
        """Collective. Go back to the best weights, which the worker then must not overwrite."""
        self.sync()
        self.comm.barrier()  # before and after: ranks may share the memory of the weights
        best.restore(self.model)
        self.comm.barrier()
        self._restored = True
        if self.comm.rank == 0:
            log.info("these are the weights of epoch %d", best.epoch)

    def evaluate(self, split: Split) -> Metrics:
        """Collective. Loss and accuracy over a split, each rank evaluating its part."""
        self.sync()
        loss, names = self._task.loss, self._metrics
        with phase("evaluate"):
            return evaluation.evaluate(
                self.comm, self.model, split, loss=loss, dtype=self.dtype, metrics=names
            )

    def predict(self, split: Split) -> Tensor | None:
        """Collective. The model's outputs in the split's order, on rank 0; None elsewhere."""
        self.sync()
        with phase("evaluate"):
            return evaluation.predict(self.comm, self.model, split, dtype=self.dtype)

    def sync(self) -> None:
        """Collective. Afterwards every rank's model holds the trained weights."""
        if not self._restored:
            with phase("exchange"):
                self.worker.sync()

    def state(self) -> State:
        """Collective. Where the training stands, whole, on every rank.

        It depends neither on the strategy nor on the number of ranks.
        """
        with phase("exchange"):
            state = self.worker.state().add(self.meter.state(self.comm))
            for one in self._companions:
                state.add(one.state())
            known = {"seed": self._task.seed, "shards": self._task.shards}
            state.values |= {"position": asdict(self.position), **known}
            return gather(self.comm, state)

    def load(self, state: State) -> None:
        """Collective. Go on from a state, taken with whatever strategy on however many ranks.

        Seed and shards must be the same, or the training would not be. The next `fit` gives its
        schedule, its stopping and its best weights their part of it.
        """
        for name, here in (("seed", self._task.seed), ("shards", self._task.shards)):
            if state.values[name] != here:
                raise UsageError(
                    f"the state is of a training with {name}={state.values[name]}, and this one "
                    f"has {name}={here}: make the Trainer with the same"
                )
        if not state.is_whole:
            state = gather(self.comm, state)
        self.worker.load(state)
        self.position = Position(**state.values["position"])
        self.meter = Meter(self._metrics)
        self.meter.load(state, first=self.comm.rank == 0)
        self._loaded, self._restored = state, False

    def rebind(
        self, strategy: Strategy | str | None = None, *, comm: Communicator | None = None
    ) -> None:
        """Collective. Go on with another strategy, or on other ranks, from where it stands.

        By default the strategy stays, and the communicator.
        """
        state = self.state()
        self.close()
        self.comm = self.comm if comm is None else comm
        self.optimizer.state.clear()
        mark_whole(self.optimizer)
        self._bind(choose(self._strategy if strategy is None else strategy, self.comm, self._task))
        self.load(state)

    def gather_optimizer_state(self) -> None:
        """Collective. Give every rank's optimizer its whole state, for `state_dict()`.

        Strategies may keep it in pieces, one copy a host; the next step takes them up again.
        """
        state = gather(self.comm, self.worker.state())
        self.sync()
        write_entries(self.optimizer, parameter_names(self.model, self.optimizer), state)
        mark_whole(self.optimizer)

    def plan(self) -> Sequence[TextTable]:
        """Collective. What the strategy has to say before the first step."""
        return self.worker.plan()

    def report(self) -> Sequence[TextTable]:
        """Collective. What the strategy has to say after the last step."""
        return self.worker.report()

    def close(self) -> None:
        """Collective. Give back communicators, hooks and shared memory.

        Every rank's model holds the trained weights afterwards, in memory of its own.
        """
        if self._worker is not None:
            self.sync()
            self._worker.close()
            self._worker = None

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:  # else others may not come here
            self.close()
