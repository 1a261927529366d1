"""The table of data sets: what is known about each without reading it."""

from dataclasses import dataclass

from phalanx.data.options import (
    CACHE,
    CLASSES,
    CONTEXT_LENGTH,
    DROP,
    ENCODING,
    MISSING,
    MOST_CATEGORIES,
    RESIZE,
    SAMPLES,
    SHAPE,
    SKIP_BAD,
    TARGET,
    TEST_DIR,
    TEST_SPLIT,
    TOKENS,
    WINDOW_STEP,
)
from phalanx.options import Option

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What is known about a data set without reading it.

    `module` names the file whose `load(folder, **options)` reads it; `files` are glob patterns,
    each of which must match a file in the folder, plain or with `.gz` after it. A data set that is
    looked for in other ways says what it `wanted`, and has a `check`, as module:function, which is
    called with the path and the options and does without torch.

    Sizes that only the files can tell are words. The last four are what a training takes that does
    not say otherwise: `deep_epochs` for deep networks, and whether inputs are normalised.
    """

    name: str
    module: str
    summary: str
    embedded: bool = False
    input_shape: tuple[int | str, ...]
    classes: int | str
    files: tuple[str, ...] = ()
    #: Those of them that may be in a folder of their own.
    test_files: tuple[str, ...] = ()
    wanted: str = ""
    check: str | None = None
    #: What a user may set, besides the steps that every data set takes.
    options: tuple[Option, ...] = ()
    #: Whether the seed of a run decides what is in it, or what it is tested with.
    takes_seed: bool = False
    #: Whether it is embedded only where a user names no path.
    takes_path: bool = False
    #: Whether samples are the numbers of tokens, and targets those that follow.
    has_tokens: bool = False
    #: Whether its targets may be other than classes, as the run's task says or they show.
    takes_task: bool = False
    epochs: int = 10
    deep_epochs: int = 10
    batch_size: int = 64
    normalise: bool = False

    @property
    def in_package(self) -> bool:
        """Whether it is embedded, whatever a user names."""
        return self.embedded and not self.takes_path

    @property
    def file_list(self) -> str:
        """What to have in the folder, for a person."""
        return self.wanted or ", ".join(f"{name}[.gz]" for name in self.files)


ENTRIES = (
    DatasetEntry(
        name="iris",
        module="phalanx.data.formats.iris",
        summary="150 flowers, 4 measures, 3 species; embedded",
        embedded=True,
        input_shape=(4,),
        classes=3,
        files=("iris.csv",),
        options=(TEST_SPLIT,),
        epochs=60,
        deep_epochs=60,
        batch_size=16,
        normalise=True,
    ),
    DatasetEntry(
        name="digits",
        module="phalanx.data.formats.digits",
        summary="1,797 handwritten digits, 8×8 grey; embedded",
        embedded=True,
        input_shape=(1, 8, 8),
        classes=10,
        files=("digits.npz",),
        epochs=30,
        deep_epochs=10,
        normalise=True,
    ),
    DatasetEntry(
        name="mnist",
        module="phalanx.data.formats.mnist",
        summary="70,000 handwritten digits, 28×28 grey; four idx files",
        input_shape=(1, 28, 28),
        classes=10,
        files=IDX_FILES,
        test_files=IDX_FILES[2:],
        options=(TEST_DIR,),
        epochs=5,
        deep_epochs=3,
        normalise=True,
    ),
    DatasetEntry(
        name="fashion-mnist",
        module="phalanx.data.formats.fashion_mnist",
        summary="70,000 pieces of clothing, 28×28 grey; four idx files",
        input_shape=(1, 28, 28),
        classes=10,
        files=IDX_FILES,
        test_files=IDX_FILES[2:],
        options=(TEST_DIR,),
        epochs=10,
        deep_epochs=5,
        normalise=True,
    ),
    DatasetEntry(
        name="cifar10",
        module="phalanx.data.formats.cifar10",
        summary="60,000 photographs, 32×32 in colour; any of the five training batches will do",
        input_shape=(3, 32, 32),
        classes=10,
        wanted="data_batch_1 … 5 and test_batch, as .bin or as pickles",
        check="phalanx.data.formats.cifar10_files:check",
        options=(TEST_DIR,),
        epochs=20,
        deep_epochs=20,
        normalise=True,
    ),
    DatasetEntry(
        name="images",
        module="phalanx.data.formats.images",
        summary="your own images, a folder a class, 64×64 unless --resize says otherwise; "
        "decoded when needed",
        input_shape=(3, "H", "W"),
        classes="a folder each",
        wanted="train/CLASS/*.jpg and test/CLASS/*.jpg, or CLASS/*.jpg",
        check="phalanx.data.formats.image_folder:check",
        options=(RESIZE, SKIP_BAD, CACHE, TEST_SPLIT),
        takes_seed=True,
    ),
    DatasetEntry(
        name="csv",
        module="phalanx.data.tables.csv",
        summary="your own table: numbers as they are, words one-hot, the last column the class or "
        "the value unless --target names others",
        input_shape=("columns",),
        classes="any",
        wanted="one *.csv, *.tsv or *.data, plain or .gz, or train.csv and test.csv; "
        "or --data-dir FILE",
        check="phalanx.data.tables.columns:check",
        options=(TARGET, DROP, MISSING, MOST_CATEGORIES, SKIP_BAD, ENCODING, TEST_SPLIT),
        takes_seed=True,
        takes_task=True,
        epochs=30,
        deep_epochs=30,
        normalise=True,
    ),
    DatasetEntry(
        name="mat",
        module="phalanx.data.formats.mat",
        summary="your own MATLAB file with X, a sample a row, and y, which counts classes from 1, "
        "or has values",
        input_shape=("columns",),
        classes="any",
        wanted="one *.mat; or --data-dir FILE",
        check="phalanx.data.formats.mat_file:check",
        options=(TEST_SPLIT,),
        takes_seed=True,
        takes_task=True,
    ),
    DatasetEntry(
        name="npz",
        module="phalanx.data.formats.npz",
        summary="your own numpy arrays; .npy files may be larger than memory",
        input_shape=("any",),
        classes="any",
        wanted="x_train, y_train and perhaps x_test, y_test, or X, y, as .npy or in one *.npz",
        check="phalanx.data.formats.npz_files:check",
        options=(TEST_SPLIT,),
        takes_seed=True,
        takes_task=True,
    ),
    DatasetEntry(
        name="synthetic",
        module="phalanx.data.formats.synthetic",
        summary="made up as needed: --samples of a --shape in --classes that can be learnt",
        embedded=True,
        input_shape=("any",),
        classes="any",
        options=(SHAPE, CLASSES, SAMPLES),
        takes_seed=True,
        takes_task=True,
        epochs=5,
        deep_epochs=5,
    ),
    DatasetEntry(
        name="text",
        module="phalanx.data.text.samples",
        summary="your own text, or embedded tales: characters or bytes, each with the one behind "
        "it; tested with its end",
        embedded=True,
        takes_path=True,
        input_shape=("tokens",),
        classes="any",
        wanted="a file, or a folder with train.txt and test.txt or any *.txt",
        check="phalanx.data.text.files:check",
        options=(TOKENS, CONTEXT_LENGTH, WINDOW_STEP, ENCODING, TEST_SPLIT),
        has_tokens=True,
        epochs=8,
        deep_epochs=8,
        batch_size=32,
    ),
)
