"""Samples are read beside the training: by a thread, or by worker processes of each rank.

A rank asks for what it will want soon, in the order in which it will want it (see
`phalanx.data.batches`), and waits for what it needs now. What it gets depends on neither who read
it nor when.
"""
