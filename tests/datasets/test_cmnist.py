"""CMNIST: the hidden coordinate, the seed, files that are missing, damaged or out of reach, and pictures of data."""

from __future__ import annotations

import gzip
import hashlib
import inspect
import math
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pooch
import pytest

from causalbald import datasets
from causalbald.datasets import Benchmark, DownloadError, Split, _download
from causalbald.datasets._cmnist import _shrunk_sizes, read_digits
from causalbald.errors import CausalBaldError, InputError
from tests.helpers.digits import write_idx, write_stand_in

IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stand_in(tmp_path_factory.mktemp("digits"))


@pytest.fixture
def copy(stand_in: Path, tmp_path: Path) -> Path:
    """A stand-in that a test may damage."""
    return Path(shutil.copytree(stand_in, tmp_path / "copy"))


def parts(b: Benchmark) -> list[Split]:
    return [b.pool, b.validation, b.test]


def test_phi_is_the_papers_formula(stand_in: Path) -> None:
    """Derived anew from the files, image by image, in plain Python."""
    raw = {p.name: gzip.decompress(p.read_bytes()) for p in stand_in.iterdir()}
    labels = {k: list(raw[f"{k}-labels-idx1-ubyte.gz"][8:]) for k in ("train", "t10k")}
    images = {
        k: [raw[f"{k}-images-idx3-ubyte.gz"][16 + 784 * i :][:784] for i in range(len(labels[k]))] for k in labels
    }
    intensity = {k: [sum(image) / 784 / 255 for image in images[k]] for k in labels}
    expected = []
    for image, c, mu in zip(images["t10k"], labels["t10k"], intensity["t10k"], strict=True):
        same = [v for v, other in zip(intensity["train"], labels["train"], strict=True) if other == c]
        mean = sum(same) / len(same)
        sd = math.sqrt(sum((v - mean) ** 2 for v in same) / len(same))
        clipped = min(max((mu - mean) / sd, -1.4), 1.4)
        low, high = -2 + 0.4 * c, -2 + 0.4 * (c + 1)
        expected.append((low + (clipped + 1.4) / 2.8 * (high - low), image))
    test = datasets.load("cmnist", 0, data_dir=str(stand_in), domain=2.0).test
    assert test.latent is not None
    np.testing.assert_allclose(test.latent, [phi for phi, _ in expected])
    pixels = [[(v / 255 - 0.1307) / 0.3081 for v in image] for _, image in expected]
    np.testing.assert_allclose(test.x.reshape(100, 784), pixels, rtol=1e-5, atol=1e-6)
    assert any(abs(phi * 5 / 2 - round(phi * 5 / 2)) < 1e-12 for phi, _ in expected), "none was clipped"


def test_outcomes_are_those_of_the_synthetic_data_at_phi(stand_in: Path) -> None:
    b = datasets.load("cmnist", 3, data_dir=stand_in)
    for part in parts(b):
        phi = part.latent
        assert phi is not None
        assert part.propensity is not None
        assert -3 <= phi.min() < -2.4
        assert 2.4 < phi.max() <= 3
        np.testing.assert_allclose(part.propensity, 1 / (1 + np.exp(-(2 * phi + 0.5))))
        np.testing.assert_allclose(part.effect, 2 + 2 * phi - 4 * np.sin(2 * phi))
        assert part.x.dtype == np.float32
        assert part.x.shape == (len(part), 1, 28, 28)
    t, pi = (np.concatenate([getattr(p, k) for p in parts(b)]) for k in ("t", "propensity"))
    assert abs((t - pi).sum()) < 4 * np.sqrt((pi * (1 - pi)).sum())
    noise = np.concatenate([p.y - np.where(p.t == 1, p.mu1, p.mu0) for p in parts(b)])
    assert noise.std() == pytest.approx(1, abs=0.15)
    quiet = datasets.load("cmnist", 3, data_dir=stand_in, sigma=0.01)
    tiny = np.concatenate([p.y - np.where(p.t == 1, p.mu1, p.mu0) for p in parts(quiet)])
    np.testing.assert_allclose(tiny, noise / 100, atol=1e-12)


def test_the_seed_determines_everything(stand_in: Path) -> None:
    first, again, other = (datasets.load("cmnist", s, data_dir=str(stand_in)) for s in (1, 1, 2))
    for a, b, c in zip(parts(first), parts(again), parts(other), strict=True):
        for name in ("x", "t", "y", "mu0", "mu1", "propensity", "latent"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert not np.array_equal(a.y, c.y)
    assert not np.array_equal(first.pool.x, other.pool.x)


def test_sizes_and_fraction(stand_in: Path) -> None:
    load = partial(datasets.load, "cmnist", 0, data_dir=str(stand_in))
    whole, small, tenth = load(), load(pool=50, validation=20), load(fraction=0.1)
    assert [len(p) for p in parts(whole)] == [280, 120, 100]
    assert [len(p) for p in parts(small)] == [50, 20, 100]
    np.testing.assert_array_equal(whole.test.y, small.test.y)
    np.testing.assert_array_equal(whole.test.y, tenth.test.y)
    # The training files have 400 images: more than the pool alone needs, and fewer than pool and validation together.
    assert [len(p) for p in parts(load(pool=300, validation=300))] == [200, 200, 100]
    assert [len(p) for p in parts(load(pool=380, validation=40))] == [362, 38, 100]
    assert [len(p) for p in parts(load(pool=280, validation=120))] == [280, 120, 100]
    assert _shrunk_sizes(1, 10_000, 60) == (1, 59), "nobody is left without a pool"
    assert _shrunk_sizes(10_000, 1, 60) == (59, 1), "nor without a validation"
    digits = {image.tobytes() for p in (whole.pool, whole.validation) for image in p.x}
    assert len(digits) == 400, "pool and validation share images"
    train, _ = read_digits(stand_in.resolve())
    digit_of = {image.tobytes(): c for image, c in zip(train.images, train.digit, strict=True)}
    chosen = np.concatenate([tenth.pool.x, tenth.validation.x])
    chosen_digits = [digit_of[image.tobytes()] for image in (255 * (0.3081 * chosen + 0.1307)).round().astype(np.uint8)]
    np.testing.assert_array_equal(np.bincount(chosen_digits), [round(0.1 * n) for n in np.bincount(train.digit)])


def test_defaults_are_those_of_the_paper() -> None:
    defaults = {name: p.default for name, p in inspect.signature(datasets.cmnist).parameters.items()}
    assert defaults == {
        "seed": 0,
        "data_dir": None,
        "pool": 35_000,
        "validation": 15_000,
        "domain": 3.0,
        "sigma": 1.0,
        "fraction": 1.0,
    }


def test_take_keeps_the_latent_coordinate(stand_in: Path) -> None:
    pool = datasets.load("cmnist", 0, data_dir=str(stand_in)).pool
    rows = np.array([5, 2, 9])
    assert pool.latent is not None
    np.testing.assert_array_equal(pool.take(rows).latent, pool.latent[rows])
    assert replace(pool, latent=None).take(rows).latent is None


def test_bad_options_say_which(stand_in: Path) -> None:
    for option, value, words in (
        ("pool", 0, "pool must be an integer of at least 1"),
        ("validation", 1.5, "validation must be an integer"),
        ("domain", 0, "domain must be above 0"),
        ("domain", "wide", "domain must be a number"),
        ("sigma", -1, "sigma must be at least 0"),
        ("fraction", 0, "fraction must be above 0"),
        ("fraction", 1.5, "fraction must be above 0 and at most 1, got 1.5"),
        ("data_dir", 7, "data_dir must be the path of a folder, got 7"),
    ):
        with pytest.raises(InputError, match=words):
            datasets.load("cmnist", 0, **{"data_dir": str(stand_in), option: value})
    with pytest.raises(InputError, match="seed must be an integer"):
        datasets.cmnist("one", data_dir=stand_in)  # type: ignore[arg-type]


def test_folder_from_the_environment_and_files_unzipped(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipped = datasets.load("cmnist", 0, data_dir=str(copy))
    for path in list(copy.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    read_digits.cache_clear()
    monkeypatch.setenv("CAUSALBALD_DATA", str(copy))
    plain = datasets.load("cmnist", 0)
    np.testing.assert_array_equal(zipped.pool.x, plain.pool.x)
    with pytest.raises(InputError, match=r"^data_dir names .*nowhere, which is no folder"):
        datasets.load("cmnist", 0, data_dir=str(copy / "nowhere"))
    monkeypatch.setenv("CAUSALBALD_DATA", str(copy / "nowhere"))
    with pytest.raises(InputError, match=r"^CAUSALBALD_DATA names .*nowhere, which is no folder"):
        datasets.load("cmnist", 0)


def test_files_are_read_once(copy: Path) -> None:
    datasets.load("cmnist", 0, data_dir=str(copy))
    (copy / IMAGES).unlink()
    assert len(datasets.load("cmnist", 1, data_dir=str(copy)).pool) == 280


def damaged(kind: str, content: bytes) -> bytes:
    if kind == "gzip":
        return content[: len(content) // 2]
    raw = gzip.decompress(content)
    if kind == "magic":
        raw = b"\0\0\x0d" + raw[3:]
    return gzip.compress({"short": raw[:-100], "long": raw + b"more", "empty": b""}.get(kind, raw))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("gzip", r"cut short or damaged and cannot be unzipped: fetch the file again"),
        ("short", r"cut short or damaged: 313516 of 313616 bytes. Fetch the file again"),
        ("long", r"cut short or damaged: 313620 of 313616 bytes"),
        ("magic", r"is no MNIST file: it starts with 00000d03, not 00000803"),
        ("empty", r"is no MNIST file: it starts with nothing"),
    ],
)
def test_damaged_files_say_which_and_what_to_do(copy: Path, kind: str, words: str) -> None:
    (copy / IMAGES).write_bytes(damaged(kind, (copy / IMAGES).read_bytes()))
    with pytest.raises(InputError, match=words) as found:
        datasets.load("cmnist", 0, data_dir=str(copy))
    assert str(copy / IMAGES) in str(found.value)
    assert "\n" not in str(found.value)


def test_missing_and_mismatched_files_say_which(copy: Path) -> None:
    write_idx(copy / LABELS, np.zeros(300, dtype=np.uint8))
    with pytest.raises(InputError, match=r"no MNIST pair \(images \(400, 28, 28\), 300 labels up to 0\)"):
        datasets.load("cmnist", 0, data_dir=str(copy))
    write_idx(copy / LABELS, (np.arange(400) % 9).astype(np.uint8))
    with pytest.raises(InputError, match=r"lack a digit"):
        datasets.load("cmnist", 0, data_dir=str(copy))
    (copy / LABELS).unlink()
    with pytest.raises(InputError, match=rf"{copy} holds no file {LABELS} .* or name no folder .* downloaded"):
        datasets.load("cmnist", 0, data_dir=str(copy))


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder without a word; of a file whose name starts with ``cut``, only the first half."""

    cut = ""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if not self.cut or self.cut not in self.path:
            return super().do_GET()
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True
        return None


@pytest.fixture
def mirror(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Path]:
    """A web server with the stand-in, and an empty cache, which is returned."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(stand_in)))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    cache = tmp_path / "cache"
    monkeypatch.delenv("CAUSALBALD_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: cache)
    for handler in pooch.get_logger().handlers:
        monkeypatch.setattr(handler, "stream", sys.stderr)  # it took the one of the time of its import
    monkeypatch.setattr(_download, "URL", f"http://127.0.0.1:{server.server_port}/")
    sums = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in stand_in.iterdir()}
    monkeypatch.setattr(_download, "SHA256", {name: sums[name] for name in _download.SHA256})
    yield cache
    server.shutdown()
    server.server_close()


def test_download_happens_once_and_in_silence(
    mirror: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fetched = datasets.load("cmnist", 0)
    np.testing.assert_array_equal(fetched.pool.x, datasets.load("cmnist", 0, data_dir=stand_in).pool.x)
    assert {p.name for p in mirror.iterdir()} == set(_download.SHA256)
    assert pooch.get_logger().level == 0, "the caller's own use of pooch must stay as it was"
    monkeypatch.setattr(_download, "URL", "http://127.0.0.1:9/")
    datasets.load("cmnist", 1)
    assert capfd.readouterr() == ("", "")


def failed_download(cache: Path, capfd: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(DownloadError) as found:
        datasets.load("cmnist", 0)
    assert isinstance(found.value, CausalBaldError)
    message = str(found.value)
    assert "\n" not in message
    for word in (IMAGES, _download.URL, str(cache), "data_dir or CAUSALBALD_DATA"):
        assert word in message
    assert not list(cache.iterdir()), "a failed download leaves no file behind"
    assert capfd.readouterr() == ("", "")
    return message


def test_download_with_the_wrong_checksum(
    mirror: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(_download.SHA256, IMAGES, "0" * 64)
    assert "wrong checksum and was not kept" in failed_download(mirror, capfd)


def test_download_cut_off(mirror: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Handler, "cut", IMAGES)
    assert "check the connection" in failed_download(mirror, capfd)


def test_download_that_the_mirror_lacks(
    mirror: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_download, "URL", _download.URL + "elsewhere/")
    assert "HTTP status 404" in failed_download(mirror, capfd)


def test_download_without_a_network(
    mirror: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setattr(_download, "URL", f"http://127.0.0.1:{port}/")
    assert "(ConnectionError): check the connection" in failed_download(mirror, capfd)


def test_nothing_is_kept_of_a_damaged_cache(mirror: Path) -> None:
    mirror.mkdir()
    (mirror / IMAGES).write_bytes(b"damaged")
    assert len(datasets.load("cmnist", 0).pool) == 280
    assert hashlib.sha256((mirror / IMAGES).read_bytes()).hexdigest() == _download.SHA256[IMAGES]
