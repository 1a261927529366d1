"""An elastic training that loses a rank on the way: `train.py WHERE RANK`."""

import json
import os
import signal
import sys
import threading
import time

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WHERE, VICTIM = sys.argv[1], int(sys.argv[2])
SAMPLES, BATCH, EPOCHS = 60, 2, 2
#: The batch of the second epoch before which, or in which, the rank is lost.
AT = 5

hvd.init()
me = hvd.rank()
torch.manual_seed(me)
data = TensorDataset(torch.randn(SAMPLES, 40), torch.randn(SAMPLES, 1), torch.arange(SAMPLES))
sampler = hvd.elastic.ElasticSampler(data)
loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
model = nn.Sequential(nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
plain = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
found = {"starts": [], "resets": [], "seen": [], "kept": []}


def die(after=0.0):
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


def perhaps_be_lost(state):
    if me != VICTIM or (state.epoch, state.batch, hvd.size()) != (1, AT, 3):
        return
    if WHERE == "user code":
        die()
    if WHERE == "error":
        raise ArithmeticError("the seventh seal")
    if WHERE == "allreduce":
        threading.Thread(target=die, args=(0.02,)).start()
        while True:
            hvd.allreduce(torch.ones(1 << 18), name="large")


def weights():
    return sum(float(one.detach().double().abs().sum()) for one in model.parameters())


@hvd.elastic.run
def train(state):
    found["starts"].append([hvd.size(), state.epoch, state.batch])
    if len(found["starts"]) > 1:
        found["kept"].append(weights())
    while state.epoch < EPOCHS:
        for inputs, targets, indices in loader:
            perhaps_be_lost(state)
            if WHERE == "allreduce" and (state.epoch, state.batch, hvd.size()) == (1, AT, 3):
                while True:
                    hvd.allreduce(torch.ones(1 << 18), name="large")
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            state.batch += 1
            sampler.record_batch(state.batch, BATCH)
            found["seen"].append([hvd.size(), state.epoch, indices.tolist()])
            if state.batch % 2 == 0:
                state.commit()
                found["committed"] = weights() if hvd.size() == 3 else found["committed"]
        state.epoch, state.batch = state.epoch + 1, 0
        sampler.set_epoch(state.epoch)
        state.commit()
    return "done"


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0)
state.register_reset_callbacks([lambda: found["resets"].append(hvd.size())])
found["result"] = train(state)
found["end"] = weights()
with open(f"rank-{hvd.rank()}.json", "w") as file:
    json.dump(found, file)
