"""`import phalanx.horovod.keras as hvd`, where Horovod has it: phalanx.keras."""

from phalanx.horovod.names import stand_for

stand_for(__name__, "phalanx.keras")
