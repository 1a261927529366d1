"""`phalanx evaluate RUN`: the test metrics of a trained model."""

from phalanx.cli.run_options import DataDir, Ranks, Run, Threads, settings_on_ranks


def evaluate(run: Run, data_dir: DataDir = None, ranks: Ranks = None, threads: Threads = 1) -> None:
    """Evaluate a trained model on its test samples.

    `phalanx evaluate runs/digits-mlp-1 --ranks 2`
    """
    settings = settings_on_ranks(run, data_dir=data_dir, ranks=ranks, threads=threads)

    from phalanx.train import inference
    from phalanx.train.session import Session
    from phalanx.train.weights import load_weights

    session = Session(settings, threads=threads)
    load_weights(session.model, run / "model.safetensors")
    metrics = inference.evaluate(
        session.comm,
        session.model,
        session.dataset.test,
        loss=session.loss,
        dtype=session.dtype,
    )
    if session.is_first:
        print(
            f"{settings.dataset}: {metrics.count:,} test samples  "
            f"loss {metrics.loss:.4f}  accuracy {metrics.accuracy:.2%}"
        )
