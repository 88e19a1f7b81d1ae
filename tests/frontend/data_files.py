"""Small data sets in the formats of the original files, written where paddle.dataset reads them."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

SENTENCES = {
    "train": "the cat saw the dog\n  the dog ran \n\nno cat <unk> ran\n",
    "valid": "a dog saw\n",
    "test": "the dog\n",
}
REVIEWS = {
    "train/pos/0_9.txt": "A great, GREAT film!\n",
    "train/pos/1_8.txt": "great.\r\n",
    "train/neg/0_1.txt": "Not great; a bad film\n",
    "test/pos/0_9.txt": "film of the year -- a film\n",
    "test/neg/0_2.txt": "bad bad bad",
    "train/unsup/0_0.txt": "bad great film",
}
PAIRS = {
    "train": "the cat\tdie Katze\nthe dog\tder Hund\nno tab here\na cat\teine Katze\n",
    "test": "the bird\tder Vogel\n" + "the " * 90 + "\tder\n",
    "val": "a dog\tein Hund\n",
    "gen": "a cat\tdie Katze\n",
}
WORDS = "The\ncat\nsat\nand\nDogs\nmay\nbark\n.\n\nIt\nis\n\nlost\n"
PROPS = "- (A0* *\n- *) (A0*)\nsit (V*) *\n- * *\n- * *\n- * *\nbark * (V*\n- * *)\n\n-\n-\n\n-\n"


def write_all(home: Path) -> None:
    """Write every data set."""
    chance = np.random.RandomState(3)
    write_mnist(home / "mnist", chance)
    write_housing(home / "uci_housing", chance)
    write_cifar(home / "cifar", chance)
    write_texts(home)
    write_movielens(home / "movielens")
    write_conll05(home / "conll05st")
    write_flowers(home / "flowers", chance)
    write_voc2012(home / "voc2012", chance)


def write_tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> None:
    """Write an archive of files in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_mnist(folder: Path, chance: np.random.RandomState, count: int = 100) -> None:
    """Write `count` images and labels for training, and as many for tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        pixels = chance.randint(0, 256, (count, 28, 28), np.uint8)
        head = np.array([0x803, count, 28, 28], ">u4").tobytes()
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
            file.write(head + pixels.tobytes())
        labels = chance.randint(0, 10, count, np.uint8)
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(np.array([0x801, count], ">u4").tobytes() + labels.tobytes())


def write_housing(folder: Path, chance: np.random.RandomState) -> None:
    """Write ten rows."""
    folder.mkdir(parents=True)
    rows = chance.rand(10, 14) * 50
    text = "\n".join(" " + "  ".join(f"{x:.4f}" for x in row) for row in rows)
    (folder / "housing.data").write_text(text + "\n")


def write_cifar(folder: Path, chance: np.random.RandomState) -> None:
    """Write two images for each batch; the archive's order is not the sorted one."""

    def batch(labels: bytes, bad: int = 0) -> bytes:
        # what Python 2 and NumPy 1 write: names of bytes, and another home of arrays
        pixels = pickle.dumps(chance.randint(0, 256, (2, 3072), np.uint8), 2)[2:-1]
        pixels = pixels.replace(b"numpy._core", b"numpy.core")
        numbers = pickle.dumps([int(n) for n in chance.randint(0, 10, 2)], 2)[2:-1]
        key = b"U" + bytes([len(labels)]) + labels
        return b"\x80\x02}(U\x04data" + pixels + key + numbers + b"u."

    ten = "cifar-10-batches-py"
    names = ("data_batch_2", "test_batch", "data_batch_1")
    write_tar(folder / "cifar-10-python.tar.gz", {f"{ten}/{n}": batch(b"labels") for n in names})
    hundred = {f"cifar-100-python/{n}": batch(b"fine_labels") for n in ("test", "train")}
    write_tar(folder / "cifar-100-python.tar.gz", hundred)


def write_texts(home: Path) -> None:
    """Write the data sets of sentences."""
    treebank = {
        f"./simple-examples/data/ptb.{part}.txt": text.encode() for part, text in SENTENCES.items()
    }
    write_tar(home / "imikolov" / "imikolov%2Fsimple-examples.tgz", treebank)
    reviews = {f"aclImdb/{name}": text.encode() for name, text in REVIEWS.items()}
    write_tar(home / "imdb" / "imdb%2FaclImdb_v1.tar.gz", reviews)
    wmt14 = {f"wmt14/{n}/{n}": text.encode() for n, text in PAIRS.items() if n != "val"}
    wmt14["wmt14/src.dict"] = b"<s>\n<e>\n<unk>\nthe\ncat\ndog\na\n"
    wmt14["wmt14/trg.dict"] = b"<s>\n<e>\n<unk>\ndie\nder\nHund\nKatze\n"
    write_tar(home / "wmt14" / "wmt14.tgz", wmt14)
    wmt16 = {f"wmt16/{n}": text.encode() for n, text in PAIRS.items() if n != "gen"}
    write_tar(home / "wmt16" / "wmt16.tar.gz", wmt16)


def write_movielens(folder: Path) -> None:
    """Write three films, two users and 40 ratings."""
    folder.mkdir(parents=True)
    ratings = "".join(f"{1 + i % 2}::{(1, 2, 7)[i % 3]}::{1 + i % 5}::9\n" for i in range(40))
    with zipfile.ZipFile(folder / "movielens%2Fml-1m.zip", "w") as archive:
        archive.writestr(
            "ml-1m/movies.dat",
            "1::Toy Story (1995)::Animation|Comedy\n2::Heat (1995)::Drama\n"
            "7::Misérables, A Toy (2) (1998)::Drama|Comedy\n".encode("latin-1"),
        )
        archive.writestr("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n")
        archive.writestr("ml-1m/ratings.dat", ratings)


def write_conll05(folder: Path) -> None:
    """Write a sentence with two verbs, one without, and one without an end."""
    base = "conll05st-release/test.wsj"
    write_tar(
        folder / "conll05st-tests.tar.gz",
        {
            f"{base}/words/test.wsj.words.gz": gzip.compress(WORDS.encode()),
            f"{base}/props/test.wsj.props.gz": gzip.compress(PROPS.encode()),
        },
    )
    (folder / "conll05st%2FwordDict.txt").write_text("UNK\nThe\ncat\nsat\nbos\neos\nbark\n")
    (folder / "conll05st%2FverbDict.txt").write_text("sit\nbark\n")
    (folder / "conll05st%2FtargetDict.txt").write_text("B-V\nI-V\nB-A0\nI-A0\nO\n")
    (folder / "conll05st%2Femb").write_bytes(b"vectors")


def _photograph(chance: np.random.RandomState, rows: int, columns: int) -> bytes:
    noise = Image.fromarray(chance.randint(0, 256, (rows // 20, columns // 20, 3), np.uint8))
    file = io.BytesIO()
    noise.resize((columns, rows)).save(file, "JPEG")
    return file.getvalue()


def write_flowers(folder: Path, chance: np.random.RandomState) -> None:
    """Write six images: three to train, two to test, one to validate."""
    images = {f"jpg/image_{i:05d}.jpg": _photograph(chance, 260 + 20 * i, 320) for i in range(1, 7)}
    write_tar(folder / "102flowers.tgz", images)
    savemat(folder / "imagelabels.mat", {"labels": np.array([[5, 3, 102, 1, 3, 9]], np.uint8)})
    parts = {"tstid": [[6, 1, 3]], "trnid": [[2, 4]], "valid": [[5]]}
    savemat(folder / "setid.mat", {n: np.array(v, np.uint16) for n, v in parts.items()})


def write_voc2012(folder: Path, chance: np.random.RandomState) -> None:
    """Write two photographs, one of them to train."""
    base = "VOCdevkit/VOC2012"
    sets = {"trainval": "2007_1\n2007_2\n", "train": "2007_2\n", "val": "2007_1\n"}
    files = {f"{base}/ImageSets/Segmentation/{n}.txt": t.encode() for n, t in sets.items()}
    for name in ("2007_1", "2007_2"):
        files[f"{base}/JPEGImages/{name}.jpg"] = _photograph(chance, 40, 60)
        classes = Image.fromarray(chance.randint(0, 21, (40, 60), np.uint8), "L").convert("P")
        file = io.BytesIO()
        classes.save(file, "PNG")
        files[f"{base}/SegmentationClass/{name}.png"] = file.getvalue()
    write_tar(folder / "VOCtrainval_11-May-2012.tar", files, "w")
