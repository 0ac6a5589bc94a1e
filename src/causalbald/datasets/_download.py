"""The four original MNIST files: in a folder that the user names, or downloaded once and checked."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from causalbald.errors import CausalBaldError, InputError

VARIABLE = "CAUSALBALD_DATA"
URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_REMEDY = f"or put the four original MNIST files into a folder and name it by data_dir or {VARIABLE}"
_log = logging.getLogger(__name__)


class DownloadError(CausalBaldError, OSError):
    """A file could not be downloaded; the message names the file, the address, the cause and the remedy.

    Examples
    --------
    >>> from causalbald.datasets import DownloadError
    >>> issubclass(DownloadError, OSError)
    True
    """


def locate(data_dir: str | PathLike[str] | None = None) -> Path:
    """Return the folder of the MNIST files: ``data_dir``, else ``CAUSALBALD_DATA``, else the user's cache.

    Files that the cache lacks are downloaded and checked first. Nothing is downloaded into a folder that the user
    named. Raises InputError if there is no such folder, and DownloadError if a download fails.
    """
    named = os.environ.get(VARIABLE) if data_dir is None else data_dir
    if not named:
        return _download()
    if not isinstance(named, str | PathLike):
        raise InputError(f"data_dir must be the path of a folder, got {named!r}.")
    folder = Path(named).expanduser().resolve()
    if not folder.is_dir():
        origin = VARIABLE if data_dir is None else "data_dir"
        raise InputError(f"{origin} names {folder}, which is no folder: name one that holds the MNIST files.")
    return folder


def find(folder: Path, name: str) -> Path:
    """Return the path of the file ``name`` in a folder: the zipped file (``.gz``) if there is one, else the plain one.

    Raises InputError if there is neither. Called by ``_cmnist.read_digits``.
    """
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise InputError(
        f"{folder} holds no file {name}.gz (nor {name}): put the four original MNIST files there, "
        f"or name no folder by data_dir or {VARIABLE} and they are downloaded."
    )


def _download() -> Path:
    """Return the folder of the user's cache, after downloading the files that it lacks or that are damaged.

    The checksum of every file is compared. Raises DownloadError if a file cannot be fetched or has another checksum.
    """
    import pooch

    folder = Path(pooch.os_cache("causalbald"))
    for name, checksum in SHA256.items():
        if not (folder / name).exists():
            _log.info("downloading %s to %s", URL + name, folder)
        try:
            with _silenced(pooch.get_logger()):
                downloader = pooch.HTTPDownloader(stream=False)  # streamed, a failure leaves its socket open
                pooch.retrieve(URL + name, f"sha256:{checksum}", fname=name, path=folder, downloader=downloader)
        except ValueError:
            raise DownloadError(
                f"{name} from {URL} has the wrong checksum and was not kept in {folder}: try again, {_REMEDY}."
            ) from None
        except OSError as error:
            raise DownloadError(
                f"{name} could not be downloaded from {URL} to {folder} ({_why(error)}): "
                f"check the connection, {_REMEDY}."
            ) from error
    return folder.resolve()


def _why(error: OSError) -> str:
    """Return the cause of a failed download in a few words: the server's HTTP status, else the kind of error."""
    response = getattr(error, "response", None)
    return f"HTTP status {response.status_code}" if response is not None else type(error).__name__


@contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch's ``logger`` inside the block: our own log and errors say the same."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
