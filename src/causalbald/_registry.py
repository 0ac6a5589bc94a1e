"""Names for acquisition functions, models and data sets, open to other packages and to single files."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from zlib import crc32

from causalbald.errors import CausalBaldError, InputError, PluginWarning, UnknownNameError

PLUGINS_VARIABLE = "CAUSALBALD_PLUGINS"
_PLUGIN_PREFIX = "causalbald_plugin_"
_PACKAGE = __name__.partition(".")[0]
T = TypeVar("T")
M = TypeVar("M")


class Registry(Generic[T]):
    """Objects of one kind, such as models, by name; plugins are loaded when a name is first looked up.

    A plugin is an entry point of the group ``causalbald.<group>`` of an installed package, or a Python file named in
    the environment variable ``CAUSALBALD_PLUGINS``. Its import must register something. Written by hand, since no
    library loads single files and digests their source.
    """

    def __init__(self, kind: str, group: str) -> None:
        """Make an empty registry. ``kind`` names the objects in messages, and ``group`` the group of entry points."""
        self.kind = kind
        self.group = f"causalbald.{group}"
        self._items: dict[str, T] = {}
        self._versions: dict[str, str] = {}
        self._entry_points_loaded = False

    def add(self, name: str, item: T) -> None:
        """Give ``item`` a name, and keep a digest of its source if it is a plugin's.

        An item with this name that was defined under the same module and name is replaced, as after a reload. Raises
        InputError if an item from another place has the name. Called by :meth:`register`.
        """
        registered = self._items.get(name)
        if registered is not None and _origin(registered) != _origin(item):
            raise InputError(f"{self.kind} {name!r} exists already ({_origin(registered)}): choose another name.")
        self._items[name] = item
        version = _source_digest(item)
        if version is not None:
            self._versions[name] = version

    def version(self, name: str) -> str | None:
        """Return the digest of a plugin's source as it was loaded.

        Parameters
        ----------
        name : str
            A registered name.

        Returns
        -------
        str or None
            12 hexadecimal digits; None for what is part of this package, for a plugin without a source file, and for
            unknown names.
        """
        self._load_plugins()
        return self._versions.get(name)

    def register(self, name: str) -> Callable[[M], M]:
        """Return a decorator that gives a function or class a name.

        Parameters
        ----------
        name : str
            The new name. InputError is raised if something from another place has it.

        Returns
        -------
        decorator
            Registers a function or class, and returns it unchanged.
        """

        def decorate(item: M) -> M:
            """Register a function or class, and return it."""
            self.add(name, cast(T, item))
            return item

        return decorate

    def summary(self, name: str) -> str:
        """Return the first line of the docstring of what has this name.

        Parameters
        ----------
        name : str
            A registered name. UnknownNameError is raised for other names.

        Returns
        -------
        str
            One sentence, shown by ``causalbald models`` and the like; empty without a docstring.
        """
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]

    def check_options(self, name: str, options: Iterable[str]) -> None:
        """Raise InputError unless the item of that name takes all ``options`` as keyword-only arguments.

        Raises UnknownNameError if no item has that name.
        """
        parameters = inspect.signature(cast(Any, self[name])).parameters.items()
        allowed = [key for key, parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        for option in options:
            if option not in allowed:
                listed = ", ".join(allowed) or "none"
                raise InputError(f"{self.kind} {name!r} has no option {option!r}. Known: {listed}.")

    def names(self) -> list[str]:
        """Return all names, plugins included.

        Returns
        -------
        list of str
            Names in the order of registration.
        """
        self._load_plugins()
        return list(self._items)

    def __getitem__(self, name: str) -> T:
        """Return the item of that name; else raise UnknownNameError, which suggests a close name."""
        self._load_plugins()
        if name not in self._items:
            close = get_close_matches(str(name), self._items, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UnknownNameError(f"unknown {self.kind} {name!r}.{hint} Known: {', '.join(self._items)}.")
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        """Yield all names, plugins included."""
        return iter(self.names())

    def _load_plugins(self) -> None:
        """Load new plugin files and, once, the entry points of the group.

        An entry point that fails gives a PluginWarning; a plugin file that fails raises InputError.
        """
        load_plugin_files()
        if self._entry_points_loaded:
            return
        self._entry_points_loaded = True
        for entry in importlib.metadata.entry_points(group=self.group):
            try:
                entry.load()
            except Exception as error:
                message = f"plugin {entry.name!r} ({entry.value}) could not be loaded: {error!r}"
                warnings.warn(message, PluginWarning, stacklevel=3)


def load_plugin_files() -> None:
    """Import the files named in ``CAUSALBALD_PLUGINS`` that have not been imported yet.

    Raises InputError, naming the file and line, if a file is missing or fails. An error of this package that arises in
    a file is raised unchanged. A file that failed is tried again next time.
    """
    for part in filter(None, os.environ.get(PLUGINS_VARIABLE, "").split(os.pathsep)):
        path = Path(part).resolve()
        module_name = f"{_PLUGIN_PREFIX}{path.stem}_{crc32(str(path).encode())}"  # equal names in two folders differ
        if module_name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(module_name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise InputError(f"plugin file {part!r} does not exist or is no Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            if isinstance(error, CausalBaldError):
                raise
            raise InputError(f"plugin file {part!r}{_line(error, path)}: {error!r}. Correct the file.") from error


def plugin_at_fault(error: BaseException) -> str | None:
    """Return file, line and function of the innermost call in a plugin file; None if the error came through none.

    Called by the command line to tell a plugin's mistake from one of this package.
    """
    frames = traceback.extract_tb(error.__traceback__)
    files = {getattr(m, "__file__", None) for name, m in sys.modules.items() if name.startswith(_PLUGIN_PREFIX)}
    lines = [f"{frame.filename}, line {frame.lineno}, in {frame.name}" for frame in frames if frame.filename in files]
    return lines[-1] if lines else None


def _line(error: Exception, path: Path) -> str:
    """Return ", line 7" for the line of the plugin file where an error arose; "" if that is not known."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return "" if line is None else f", line {line}"


def _source_digest(item: object) -> str | None:
    """Return a digest, 12 hexadecimal digits, of the files that register and define an item.

    None if no such file is outside this package and Python's library. Modules that these files import are not part of
    the digest. Called by :meth:`Registry.add`.
    """
    files: dict[str, bytes] = {}
    definition = sys.modules.get(_module(item))
    for scope in (_registering_scope(), vars(definition) if definition is not None else {}):
        package, file = str(scope.get("__name__", "")).partition(".")[0], scope.get("__file__")
        if file is None or package == _PACKAGE or package in sys.stdlib_module_names:
            continue
        if file not in files and Path(file).is_file():
            files[file] = Path(file).read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha256(b"\0".join(files.values())).hexdigest()[:12] if files else None


def _registering_scope() -> dict[str, Any]:
    """Return the global variables of the module that is registering something: the first caller outside this package.

    For what this package registers itself, that is Python's import system.
    """
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return {} if frame is None else frame.f_globals


def _origin(item: object) -> str:
    """Return the dotted name under which an item is defined: module and qualified name."""
    return f"{_module(item)}.{getattr(getattr(item, 'function', item), '__qualname__', '?')}"


def _module(item: object) -> str:
    """Return the module that defines an item, or the function that the item wraps; "?" if it is not known."""
    return str(getattr(getattr(item, "function", item), "__module__", "?"))
