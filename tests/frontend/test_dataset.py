"""Data sets read from small files in the original formats (paddle.dataset)."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.dataset.archive import extract
from graphopt.errors import FormatError, UnsafeError
from graphopt.frontend.script import run_script
from graphopt_tests.frontend import data_files
from graphopt_tests.frontend.test_script import script

dataset = paddle.dataset

# the files are small ones, not those of which Paddle knows the MD5 sums
pytestmark = pytest.mark.filterwarnings("ignore:.*is not the file that Paddle downloads")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write all data sets to a folder."""
    folder = tmp_path_factory.mktemp("home")
    data_files.write_all(folder)
    return folder


@pytest.fixture
def home(written: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make paddle.dataset read the folder."""
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(written))
    yield written


def some(reader: Any, count: int = 3) -> list[Any]:
    """Return the first samples."""
    return list(itertools.islice(reader(), count))


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names file and folder, and says that nothing is downloaded."""
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="downloads nothing") as caught:
        dataset.mnist.train()
    assert "'train-images-idx3-ubyte.gz'" in str(caught.value)
    assert str(tmp_path / "mnist") in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"cifar-10-python\.tar\.gz"):
        dataset.common.fetch_all()
    assert not list(tmp_path.iterdir())


def test_another_file_is_a_warning(home: Path) -> None:
    """A file with another MD5 sum gives a warning, and is read."""
    with pytest.warns(UserWarning, match="is not the file that Paddle downloads"):
        path = dataset.common.download("a/b/housing.data", "uci_housing", "0" * 32)
    assert path == str(home / "uci_housing" / "housing.data")
    shutil.copy(path, home / "uci_housing" / "other")
    found = dataset.common.md5file(path)
    assert dataset.common.download("a", "uci_housing", found, "other").endswith("other")


def test_mnist(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels are float32 in [-1, 1], labels int; any number of samples can be read."""
    samples = list(dataset.mnist.train()())
    pixels, labels = dataset.mnist.pixels_and_labels(
        dataset.mnist.TRAIN_IMAGES.path(), dataset.mnist.TRAIN_LABELS.path()
    )
    assert len(samples) == 100 and type(samples[0][1]) is int
    assert samples[0][0].shape == (784,) and samples[0][0].dtype == np.float32
    np.testing.assert_allclose(samples[9][0], pixels[9] / 127.5 - 1, atol=1e-6)
    assert [label for _, label in samples] == labels.tolist()
    data_files.write_mnist(tmp_path / "mnist", np.random.RandomState(0), count=3)
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    assert len(list(dataset.mnist.test()())) == 3
    files = dataset.mnist.TEST_IMAGES.path(), dataset.mnist.TEST_LABELS.path()
    assert len(list(dataset.mnist.reader_creator(*files, buffer_size=100)())) == 3


def test_uci_housing(home: Path) -> None:
    """Features have mean 0 and range 1 over both sets; prices are unchanged."""
    train, test = list(dataset.uci_housing.train()()), list(dataset.uci_housing.test()())
    assert (len(train), len(test), len(dataset.uci_housing.feature_names)) == (8, 2, 13)
    features = np.array([x for x, _ in train + test])
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.ptp(features, axis=0), 1)
    raw = np.loadtxt(home / "uci_housing" / "housing.data")
    assert [y.tolist() for _, y in train + test] == raw[:, 13:].tolist()
    assert dataset.uci_housing.predict_reader()[0].tolist() == test[0][0].tolist()


def test_uci_housing_has_a_model(home: Path) -> None:
    """The archive's files are extracted to a new folder."""
    data_files.write_tar(home / "uci_housing" / "fit_a_line.fluid.tar", {"fc_0.w_0": b"w"}, "w")
    folder = Path(dataset.uci_housing.fluid_model())
    assert (folder / "fc_0.w_0").read_bytes() == b"w"
    shutil.rmtree(folder)


def test_cifar(home: Path) -> None:
    """Pixels are float32 in [0, 1], in the archive's order, repeated with `cycle`."""
    train = list(dataset.cifar.train10()())
    assert len(train) == 4 and len(list(dataset.cifar.test10()())) == 2
    assert train[0][0].shape == (3072,) and train[0][0].dtype == np.float32
    assert 0 <= train[0][0].min() < 0.1 < 0.9 < train[0][0].max() <= 1
    cycled = some(dataset.cifar.train10(cycle=True), 6)
    assert [label for _, label in cycled] == [label for _, label in [*train, *train[:2]]]
    assert len(list(dataset.cifar.train100()())) == len(list(dataset.cifar.test100()())) == 2


def test_a_pickle_runs_nothing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that would call a function is refused, and so is one without images."""
    monkeypatch.setattr(dataset.common, "DATA_HOME", str(tmp_path))
    archive = tmp_path / "cifar" / "cifar-10-python.tar.gz"
    data_files.write_tar(archive, {"data_batch_1": b"cos\nsystem\n(S'true'\ntR."})
    with pytest.raises(UnsafeError):
        list(dataset.cifar.train10()())
    data_files.write_tar(archive, {"data_batch_1": b"\x80\x02}."})
    with pytest.raises(FormatError, match="no images and labels"):
        list(dataset.cifar.train10()())


def test_imikolov(home: Path) -> None:
    """Words are bytes, sorted by frequency and name; samples are windows or pairs of sentences."""
    imikolov = dataset.imikolov
    words = imikolov.build_dict(1)
    assert list(words) == ["<e>", "<s>", b"dog", b"the", b"cat", b"ran", b"saw", "<unk>"]
    assert words["<unk>"] == len(words) - 1 and b"<unk>" not in words
    assert b"<unk>" in imikolov.build_dict(0)
    ids = {"<s>": 10, "<e>": 11, "<unk>": 0, b"a": 1, b"dog": 2}
    assert list(imikolov.test(ids, 2)()) == [(10, 1), (1, 2), (2, 0), (0, 11)]
    assert list(imikolov.test(ids, 9)()) == []
    pairs = imikolov.test(ids, -1, imikolov.DataType.SEQ)
    assert list(pairs()) == [([10, 1, 2, 0], [1, 2, 0, 11])]
    assert len(list(imikolov.train(ids, 4, imikolov.DataType.SEQ)())) == 2
    with pytest.raises(ValueError, match="cannot have -1 words"):
        list(imikolov.train(ids, -1)())


def test_imdb(home: Path) -> None:
    """Words have no punctuation; positive reviews come first, with label 0."""
    imdb = dataset.imdb
    words = imdb.build_dict(re.compile("aclImdb/train/(pos|neg)/"), 0)
    assert list(words) == [b"great", b"a", b"film", b"bad", b"not", "<unk>"]
    assert list(imdb.train(words)()) == [([1, 0, 0, 2], 0), ([0], 0), ([4, 0, 1, 3, 2], 1)]
    assert list(imdb.test(words)()) == [([2, 5, 5, 5, 1, 2], 0), ([3, 3, 3], 1)]
    assert imdb.word_dict() == {"<unk>": 0}


def test_movielens(home: Path) -> None:
    """A sample has numbers of user and film, and a rating; each rating is in one of the sets."""
    movielens = dataset.movielens
    train, test = list(movielens.train()()), list(movielens.test()())
    assert len(train) + len(test) == 40 and 0 < len(test) < 10
    assert train[0] == [1, 1, 0, 10, 1, [0, 1], [0, 1], [-3.0]]
    assert train[2] == [1, 1, 0, 10, 7, [2, 1], [3, 4, 0, 5], [1.0]]
    assert movielens.movie_categories() == {"Animation": 0, "Comedy": 1, "Drama": 2}
    assert movielens.get_movie_title_dict()["misérables,"] == 3
    found = movielens.max_movie_id(), movielens.max_user_id(), movielens.max_job_id()
    assert found == (7, 2, 16)
    assert str(movielens.user_info()[2]) == "<UserInfo id(2), gender(M), age(56), job(16)>"
    assert "title(Heat ), categories(['Drama'])" in repr(movielens.movie_info()[2])


def test_conll05(home: Path) -> None:
    """Each verb has a sample; a sentence without a verb has none."""
    words, verbs, labels = dataset.conll05.get_dict()
    assert labels == {"B-V": 0, "I-V": 1, "B-A0": 2, "I-A0": 3, "O": 4}
    assert (words["cat"], verbs["bark"]) == (2, 1)
    sit, bark = dataset.conll05.test()()
    sentence = [1, 2, 3, 0, 0, 0, 6, 0]
    context = [[i] * 8 for i in (1, 2, 3, 0, 0)]
    role = [2, 3, 0, 4, 4, 4, 4, 4]
    assert sit == (sentence, *context, [0] * 8, [1, 1, 1, 1, 1, 0, 0, 0], role)
    assert [c[0] for c in bark[1:6]] == [0, 0, 6, 0, 5]
    assert bark[7:] == ([0, 0, 0, 0, 1, 1, 1, 1], [4, 2, 4, 4, 4, 4, 0, 1])
    assert Path(dataset.conll05.get_embedding()).read_bytes() == b"vectors"


def test_wmt14(home: Path) -> None:
    """A sample is source, target and shifted target; long or tabless lines are dropped."""
    train = list(dataset.wmt14.train(6)())
    assert train[:2] == [([0, 3, 4, 1], [0, 3, 2], [3, 2, 1]), ([0, 3, 5, 1], [0, 4, 5], [4, 5, 1])]
    assert (len(train), len(list(dataset.wmt14.test(6)()))) == (3, 1)
    assert list(dataset.wmt14.gen(7)()) == [([0, 6, 4, 1], [0, 3, 6], [3, 6, 1])]
    assert dataset.wmt14.get_dict(4)[1] == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "die"}
    assert dataset.wmt14.get_dict(4, reverse=False)[0]["the"] == 3


def test_wmt16(home: Path) -> None:
    """Both directions work, with dictionaries of the training set's most frequent words."""
    wmt16 = dataset.wmt16
    assert wmt16.get_dict("en", 5) == {"<s>": 0, "<e>": 1, "<unk>": 2, "the": 3, "cat": 4}
    assert wmt16.get_dict("de", 4, reverse=True)[3] == "Katze"
    assert some(wmt16.train(5, 4), 1) == [([0, 3, 4, 1], [0, 2, 3], [2, 3, 1])]
    assert some(wmt16.train(4, 5, "de"), 1) == [([0, 2, 3, 1], [0, 3, 4], [3, 4, 1])]
    assert (len(list(wmt16.test(9, 9)())), len(list(wmt16.validation(9, 9)()))) == (2, 1)
    with pytest.raises(ValueError, match="not 'fr'"):
        wmt16.train(5, 5, src_lang="fr")
    assert not list((home / "wmt16").glob("*.dict"))


def test_flowers(home: Path) -> None:
    """Images are in the archive's order, labels from 0; the larger part is for training."""
    flowers = dataset.flowers
    raw = list(flowers.train(mapper=lambda sample: sample, use_xmap=False)())
    assert [label for _, label in raw] == [4, 101, 8] and raw[0][0].startswith(b"\xff\xd8")
    (pixels, label), _ = flowers.test(use_xmap=False)()
    assert (pixels.shape, pixels.dtype, label) == ((3 * 224 * 224,), np.float32, 2)
    assert -124 <= pixels.min() < 0 < pixels.max() <= 152
    ((_, label),) = flowers.valid()()
    assert label == 2
    cycled = some(flowers.test(mapper=lambda s: s[1], use_xmap=False, cycle=True), 5)
    assert cycled == [2, 0, 2, 0, 2]


def test_voc2012(home: Path) -> None:
    """A sample is pixels and their classes."""
    pairs = [list(reader()()) for reader in (dataset.voc2012.train, dataset.voc2012.val)]
    assert [len(part) for part in pairs] == [2, 1]
    photograph, classes = pairs[0][0]
    assert (photograph.shape, photograph.dtype) == ((40, 60, 3), np.uint8)
    assert (classes.shape, classes.max() <= 20) == ((40, 60), True)
    ((other, _),) = dataset.voc2012.test()()
    np.testing.assert_array_equal(other, pairs[0][1][0])


def test_images(home: Path) -> None:
    """Channels are BGR; images are resized by the shorter edge, cropped, flipped and transposed."""
    image = dataset.image
    path = home / "image.png"
    data_files.Image.fromarray(np.full((30, 60, 3), (10, 20, 30), np.uint8)).save(path)
    pixels = image.load_image(str(path))
    assert pixels[0, 0].tolist() == [30, 20, 10] and image.load_image(str(path), False).ndim == 2
    assert image.resize_short(pixels, 20).shape == (20, 40, 3)
    assert image.resize_short(pixels.transpose(1, 0, 2).copy(), 20).shape == (40, 20, 3)
    columns = np.tile(np.arange(8, dtype=np.uint8), (4, 1))
    assert image.center_crop(columns, 2)[0].tolist() == [3, 4]
    assert image.random_crop(columns, 4).shape == (4, 4)
    assert image.left_right_flip(columns)[0].tolist() == list(range(7, -1, -1))
    made = image.load_and_transform(str(path), 20, 16, is_train=True, mean=[1, 2, 3])
    assert made.shape == (3, 16, 16) and made[:, 0, 0].tolist() == [29, 18, 7]
    with pytest.raises(ValueError, match="order"):
        image.to_chw(columns)


def test_samples_in_files(tmp_path: Path) -> None:
    """Each trainer reads its share of the files that `split` writes."""
    common = dataset.common
    pattern = str(tmp_path / "part-%02d")
    common.split(lambda: range(8), 2, pattern)
    share = [list(common.cluster_files_reader(str(tmp_path / "part-*"), 2, i)()) for i in (0, 1)]
    assert share == [[0, 1, 2, 5, 6], [3, 4, 7]]
    common.split(lambda: range(3), 5, pattern + ".json", dumper=json.dump)
    read = common.cluster_files_reader(str(tmp_path / "*.json"), 1, 0, loader=json.load)
    assert list(read()) == [0, 1, 2]


def test_scripts_import_the_modules(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Scripts import the modules as packages, modules and names of paddle."""
    text = """
        import paddle
        import paddle.dataset.mnist as mnist
        from paddle.dataset import uci_housing
        reader = paddle.batch(paddle.reader.shuffle(paddle.dataset.mnist.train(), 50), 30)
        print([len(group) for group in reader()], mnist.__name__, len(list(uci_housing.test()())))
    """
    assert run_script(script(tmp_path, text)) == 0
    assert capfd.readouterr().out == "[30, 30, 30, 10] graphopt.dataset.mnist 2\n"


def test_text_datasets(home: Path) -> None:
    """Datasets have the readers' samples, as arrays that a loader can collate."""
    text = paddle.text
    imdb = text.Imdb(mode="TEST", cutoff=0)
    assert len(imdb) == 2 and imdb[1][1].tolist() == [1] and imdb[1][0].dtype == np.int64
    windows = text.Imikolov(window_size=2, mode="test", min_word_freq=1)
    start, end, dog, the = (windows.word_idx[w] for w in ("<s>", "<e>", b"dog", b"the"))
    assert [tuple(map(int, w)) for w in windows] == [(start, the), (the, dog), (dog, end)]
    (source, target), *_ = text.Imikolov(data_type="seq", min_word_freq=0)
    assert source[1:].tolist() == target[:-1].tolist()
    ratings = text.Movielens()
    assert len(ratings) + len(text.Movielens(mode="test")) == 40
    assert [p.tolist() for p in ratings[0]] == [[1], [1], [0], [10], [1], [0, 1], [0, 1], [-3.0]]
    houses = text.UCIHousing()
    batches = list(paddle.io.DataLoader(houses, batch_size=4, return_list=True))
    assert [np.asarray(b[0]).shape for b in batches] == [(4, 13), (4, 13)]
    assert len(text.UCIHousing(mode="test")) == 2 and houses[0][1].dtype == np.float32
    pairs = text.WMT14(dict_size=6)
    assert [p.tolist() for p in pairs[0]] == [[0, 3, 4, 1], [0, 3, 2], [3, 2, 1]]
    assert pairs.get_dict(reverse=True)[1][3] == "die"
    pairs = text.WMT16(src_dict_size=4, trg_dict_size=5, lang="de")
    assert [p.tolist() for p in pairs[0]] == [[0, 2, 3, 1], [0, 3, 4], [3, 4, 1]]
    assert pairs.get_dict("en")["cat"] == 4
    roles = text.Conll05st()
    assert [p.tolist() for p in roles[1]] == list(list(dataset.conll05.test()())[1])
    for kind in (text.Imdb, text.WMT14, text.UCIHousing):
        with pytest.raises(ValueError, match="mode should be 'train' or"):
            kind(mode="all")
    with pytest.raises(ValueError, match="dict_size"):
        text.WMT14()
    with pytest.raises(ValueError, match="dict_size"):
        text.WMT16(src_dict_size=5)


def test_vision_datasets(home: Path) -> None:
    """Samples are Pillow images or arrays, before and after a transform."""
    vision = paddle.vision
    digits = vision.MNIST(mode="test")
    image, label = digits[3]
    assert (image.size, image.mode, label.shape, label.dtype) == ((28, 28), "L", (1,), np.int64)
    pixels, same = vision.datasets.MNIST(mode="test", backend="cv2")[3]
    assert (pixels.dtype, pixels.shape, same) == (np.float32, (28, 28), label)
    np.testing.assert_array_equal(pixels, np.array(image))
    paths = home / "mnist" / "train-images-idx3-ubyte.gz", dataset.mnist.TRAIN_LABELS.path()
    clothes = vision.FashionMNIST(str(paths[0]), paths[1], transform=vision.transforms.ToTensor)
    assert len(clothes) == 100
    with pytest.raises(FileNotFoundError, match="fashion-mnist"):
        vision.FashionMNIST()
    small = vision.Cifar10(backend="cv2")
    batches = [label for _, label in dataset.cifar.train10()()]
    assert [int(label) for _, label in small] == [*batches[2:], *batches[:2]]
    assert small[0][0].shape == (32, 32, 3) and small[0][0].dtype == np.float32
    first = next(iter(dataset.cifar.test100()()))[0].reshape(3, 32, 32).transpose(1, 2, 0) * 255
    np.testing.assert_allclose(np.array(vision.Cifar100(mode="test")[0][0]), first, atol=1e-4)
    plants = vision.Flowers(transform=lambda image: image.size)
    assert plants[0][0] == (320, 380) and plants[0][1].tolist() == [9]
    assert vision.Flowers(mode="valid", backend="cv2")[0][0].shape == (360, 320, 3)
    seen = vision.VOC2012(mode="valid", backend="cv2")
    assert len(seen) == 1 and seen[0][1].shape == (40, 60) and seen[0][0].dtype == np.float32
    with pytest.raises(ValueError, match="mode should be"):
        vision.VOC2012(mode="all")
    with pytest.raises(ValueError, match="backend"):
        vision.MNIST(backend="gd")


def test_folders_of_images(tmp_path: Path) -> None:
    """Labels are the folders, in the order of names; files other than images are skipped."""
    vision = paddle.vision
    for name in ("b/1.png", "a/z.PNG", "a/y.jpg", "a/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name.endswith("txt"):
            (tmp_path / name).write_text("text")
        else:
            data_files.Image.new("L", (4, 3)).save(tmp_path / name)
    found = vision.DatasetFolder(str(tmp_path))
    assert [label for _, label in found.samples] == [0, 0, 1] and found.classes == ["a", "b"]
    assert found[2][0].mode == "RGB" and len(found) == 3
    texts = vision.DatasetFolder(str(tmp_path), lambda p: Path(p).read_text(), [".txt"], str.upper)
    assert texts[0] == ("TEXT", 0)
    everything = vision.ImageFolder(
        str(tmp_path), is_valid_file=lambda path: "a" in Path(path).parts
    )
    assert len(everything) == 3 and len(vision.ImageFolder(str(tmp_path))) == 3
    vision.set_image_backend("cv2")
    try:
        assert vision.ImageFolder(str(tmp_path))[0][0].shape == (3, 4, 3)
        assert vision.image_load(str(tmp_path / "b" / "1.png")).shape == (3, 4, 3)
    finally:
        vision.set_image_backend("pil")
    assert vision.get_image_backend() == "pil"
    with pytest.raises(RuntimeError, match="no file to read"):
        vision.DatasetFolder(str(tmp_path), extensions=[".gif"])


def test_an_archive_stays_in_its_folder(tmp_path: Path) -> None:
    """Files are extracted below the folder; a name that leads outside is an error."""
    path = tmp_path / "files.tar"
    data_files.write_tar(path, {"a/b.txt": b"inside"}, "w")
    with tarfile.open(path) as archive:
        extract(archive, str(tmp_path / "out"))
    assert (tmp_path / "out" / "a" / "b.txt").read_bytes() == b"inside"
    data_files.write_tar(path, {"../outside.txt": b""}, "w")
    with tarfile.open(path) as archive, pytest.raises(UnsafeError, match=r"outside\.txt"):
        extract(archive, str(tmp_path / "out"))
    assert not (tmp_path / "outside.txt").exists()
