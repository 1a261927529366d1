"""The communicators for devices, as far as CPU memory can show; the contract is tried elsewhere."""

from ipaddress import ip_address
from pathlib import Path

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic
from phalanx.comm.device import rendezvous
from phalanx.comm.device.distributed import DistributedCommunicator
from phalanx.comm.device.encoding import decode, encode
from phalanx.comm.device.on_device import on_device
from phalanx.comm.device.rendezvous import open_store
from phalanx.comm.device.staged import StagedCommunicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import LaunchError, UsageError

CPU = torch.device("cpu")


@pytest.mark.ranks(2)
def test_collectives_go_over_torch_and_messages_over_mpi(comm: Communicator) -> None:
    traffic = Traffic()
    world = DistributedCommunicator(CountedCommunicator(comm, traffic), CPU)
    tensor = torch.full((4,), float(comm.rank))
    world.allreduce(tensor)
    world.broadcast(tensor)
    world.allgather(tensor[:1], torch.zeros(2))
    assert traffic.bytes == 0
    if comm.rank == 0:
        world.send(tensor, 1)
        assert traffic.bytes == tensor.nbytes
    else:
        world.receive(tensor, 0)
        assert tensor.tolist() == [1.0] * 4


@pytest.mark.ranks(2)
def test_complex_products_and_ordered_unsigned_numbers(comm: Communicator) -> None:
    world = DistributedCommunicator(comm, CPU)
    product = torch.tensor([1 + 1j, 2j]) if comm.rank else torch.tensor([1 - 1j, 3j])
    world.allreduce(product, "product")
    assert product.tolist() == [2 + 0j, -6 + 0j]
    least = torch.tensor([2**63 + comm.rank, 1], dtype=torch.uint64)
    world.allreduce(least, "minimum")
    assert least.tolist() == [2**63, 1]
    smaller = torch.tensor([2**15, 1], dtype=torch.uint16)
    world.reduce(smaller, 1, op="maximum")
    assert smaller.tolist() == [2**15, 1]


def test_encoding_keeps_memory_where_bits_will_do() -> None:
    for dtype in (torch.bool, torch.float32, torch.complex64, torch.uint64):
        tensor = torch.ones(3, dtype=dtype)
        encoded, _ = encode(tensor, "sum")
        assert encoded.data_ptr() == tensor.data_ptr()
    wrapped = torch.tensor([40_000], dtype=torch.uint16)
    encoded, op = encode(wrapped, "sum")
    decode(encoded * 2, op, into=wrapped)
    assert wrapped.tolist() == [80_000 % 2**16]


def test_host_memory_is_used_again() -> None:
    world = StagedCommunicator(SingleCommunicator(), everything=True)
    rooms = []
    for _ in range(3):
        world.allreduce(torch.ones(5), into=torch.zeros(5))
        rooms.append({room.data_ptr() for room in world._rooms._free[20]})
    assert rooms[0] == rooms[1] == rooms[2]
    assert len(rooms[0]) == 2
    world.free()
    assert world._rooms._free == {}  # and given back with the communicator


@pytest.mark.ranks(2)
def test_mixed_requests(comm: Communicator) -> None:
    for world in (DistributedCommunicator(comm, CPU), StagedCommunicator(comm, everything=True)):
        other = 1 - comm.rank
        came, total = torch.zeros(2), torch.ones(3)
        pending = [world.ireceive(came, other), world.iallreduce(total)]
        sent = world.isend(torch.full((2,), float(comm.rank)), other)
        while pending:
            pending.pop(world.wait_any(pending))
        sent.wait()
        assert came.tolist() == [other] * 2
        assert total.tolist() == [2.0] * 3
        with pytest.raises(UsageError, match="one request"):
            world.wait_any([])


def test_a_communicator_for_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    comm = SingleCommunicator()
    assert on_device(comm, CPU) is comm
    monkeypatch.setattr(SingleCommunicator, "size", 2)
    assert on_device(comm, CPU) is comm
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    assert isinstance(on_device(comm, torch.device("cuda")), StagedCommunicator)


def listeners(port: int) -> list[str]:
    """The addresses at which somebody listens at a port, as the kernel spells them."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if address.endswith(f":{port:04X}") and state == "0A":
                found.append(address.partition(":")[0])
    return found


@pytest.mark.ranks(2)
def test_the_store_of_one_host_listens_to_that_host_alone(comm: Communicator) -> None:
    store = open_store(comm)
    assert listeners(store.port) == ["0100007F"]
    assert store.timeout == rendezvous.PATIENCE
    comm.barrier()


@pytest.mark.ranks(2)
def test_the_store_of_several_hosts_listens_where_all_reach_it(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "on_one_host", lambda _: False)
    monkeypatch.setattr(rendezvous, "_addresses", lambda: ["192.0.2.1", "127.0.0.5", "127.0.0.1"])
    store = open_store(comm)
    assert listeners(store.port) == ["0500007F"]
    if comm.rank == 1:
        store.set("from", "the other")
    assert store.get("from") == b"the other"
    comm.barrier()


def test_a_host_that_nobody_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_reaches", lambda _: False)
    for address in rendezvous._addresses():
        assert not ip_address(address).is_loopback
    with pytest.raises(LaunchError, match=r"\(127\.0\.0\.1\) is reached by all.* firewall"):
        rendezvous._reached_by_all(SingleCommunicator(), ["127.0.0.1"])
