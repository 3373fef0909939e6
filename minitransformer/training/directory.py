"""Folders in which files are written, replaced and deleted without following links.

A path may lead somewhere else by the time it is used: anybody who can write to one of its folders can put a
link there. So a `Directory` stays open, and its files and folders are accessed relative to its descriptor
(`dir_fd` of the functions of `os`). Before each change, its own path must still lead to it. On systems
without `dir_fd` (Windows), paths are checked just before they are used.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from minigrad.io import LEFTOVER, temporary_name, write_temporary

from ..errors import UserError
from ..files import printable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HAS_DIR_FD = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir} <= os.supports_dir_fd

Inode = tuple[int, int]


class DirectoryError(UserError, OSError):
    """Raised if a run's folder is gone, or contains something that is not a regular file or folder."""

    def __init__(self, path: Path, problem: str, fix: str, number: int) -> None:
        self.message = f"{printable(path)} {problem}.\n{fix}"
        super().__init__(self.message)
        self.errno = number
        self.strerror = problem
        self.filename = str(path)

    def __str__(self) -> str:
        return self.message


class Directory:
    """An open folder. Its path may contain links; if it has a `parent`, the folder itself is not a link."""

    def __init__(self, path: Path, parent: Directory | None = None) -> None:
        self.path = Path(path)
        self.parent = parent
        self.fd = None
        self._absolute = os.path.abspath(path)  # the current directory may change
        if parent is not None and not stat.S_ISDIR(parent.kind(self.path.name)):
            raise _not_plain(self.path, "a folder")
        if HAS_DIR_FD:
            place, flags = (path, 0) if parent is None else (self.path.name, os.O_NOFOLLOW)
            self.fd = os.open(
                place, os.O_RDONLY | os.O_DIRECTORY | flags, dir_fd=None if parent is None else parent.fd
            )
        self.inode = inode(os.stat(self._absolute if self.fd is None else self.fd))

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------ looking

    def check(self) -> None:
        """Raise an error if the path no longer leads to this folder."""
        if self.parent is not None:
            self.parent.check()
        if not self.is_there():
            raise (self.parent or self).replaced_error(self.path)

    def replaced_error(self, path: Path) -> UserError:
        """The error for this folder, or one in it, whose path leads somewhere else."""
        return DirectoryError(
            path,
            "was deleted, moved or replaced; nothing more was written there",
            "Start the command again when nobody else changes that folder.",
            errno.ESTALE,
        )

    def is_there(self) -> bool:
        """Whether the path leads to this folder."""
        with suppress(OSError):
            if self.parent is None:
                return inode(os.stat(self._absolute)) == self.inode
            return inode(self.parent.stat(self.path.name)) == self.inode
        return False

    def stat(self, name: str) -> os.stat_result:
        """`os.lstat` of a name: of a link itself, not of its target."""
        return os.stat(self._at(name), dir_fd=self.fd, follow_symlinks=False)

    def kind(self, name: str) -> int:
        """The `st_mode` of a name; 0 if it does not exist."""
        try:
            return self.stat(name).st_mode
        except FileNotFoundError:
            return 0

    def names(self) -> list[str]:
        """The sorted names of what is in the folder."""
        return sorted(os.listdir(self.path if self.fd is None else self.fd))

    def folders(self) -> list[str]:
        """The names of the subfolders; links do not count."""
        return [name for name in self.names() if stat.S_ISDIR(self.kind(name))]

    def _at(self, name: str) -> Path | str:
        """The path to pass to functions of `os`, together with `dir_fd=self.fd`."""
        return self.path / name if self.fd is None else name

    # ------------------------------------------------------------ changing

    def folder(self, name: str, create: bool = False) -> Directory:
        """Open a subfolder; with `create`, make it if it is missing."""
        self.check()
        if create and not self.kind(name):
            with suppress(FileExistsError):
                os.mkdir(self._at(name), dir_fd=self.fd)
        return Directory(self.path / name, self)

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically: a reader, also after a crash, finds either the old content or the new."""
        self.write_all({name: content})

    def write_all(self, files: Mapping[str, bytes], marks: Sequence[str] = ()) -> None:
        """Write files that belong together: first all to temporary files, then each replaces its old version.

        The files in `marks` are deleted before the first file is replaced, and written last: if the last mark
        exists, all files are from the same call.
        """
        self.check()
        for name in files:
            self._check_plain(name)
        written: dict[str, str] = {}
        try:
            for name, content in files.items():
                with self._naming(name):
                    written[name] = write_temporary(self._at(name), content, self.fd).name
            for name in reversed(marks):
                self.delete(name)
            for name in sorted(files, key=lambda name: marks.index(name) if name in marks else -1):
                self.check()
                self._replace(written[name], name)
                del written[name]
        except BaseException:
            for temporary in written.values():
                with suppress(FileNotFoundError):
                    os.unlink(self._at(temporary), dir_fd=self.fd)
            raise

    def append(self, name: str, content: bytes) -> int:
        """Append as much of the content as fits on the disk; returns the number of bytes written."""
        self.check()
        self._check_plain(name)
        if self.kind(name) and self.stat(name).st_nlink > 1:  # a hard link, perhaps in somebody else's folder
            self.write(name, self.read(name))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        with self._naming(name):
            file = os.open(self._at(name), flags | _NO_LINK, 0o666, dir_fd=self.fd)
            try:
                return os.write(file, content)
            finally:
                os.close(file)

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file to `size` bytes. A hard-linked file is replaced: other names keep the content."""
        self.check()
        if self.stat(name).st_nlink > 1:
            self.write(name, self.read(name)[:size])
            return
        self._check_plain(name)
        with self._naming(name):
            file = os.open(
                self._at(name), os.O_WRONLY | getattr(os, "O_BINARY", 0) | _NO_LINK, dir_fd=self.fd
            )
            try:
                os.ftruncate(file, size)
            finally:
                os.close(file)

    def read(self, name: str, limit: int = 2**40) -> bytes:
        """The content of a regular file; raises an OSError if it is larger than `limit` bytes."""
        self._check_plain(name)
        with self._naming(name):
            file = os.open(
                self._at(name), os.O_RDONLY | getattr(os, "O_BINARY", 0) | _NO_LINK, dir_fd=self.fd
            )
            with os.fdopen(file, "rb") as opened:
                if os.fstat(file).st_size > limit:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                return opened.read()

    def delete(self, name: str) -> None:
        """Delete a regular file, if it exists."""
        self.check()
        self._check_plain(name)
        with self._naming(name), suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self.fd)

    def delete_leftovers(self, of: Collection[str]) -> None:
        """Delete the temporary files of these names that a killed process left behind."""
        for name in self.names():
            found = LEFTOVER.fullmatch(name)
            if found is not None and found["name"] in of and stat.S_ISREG(self.kind(name)):
                self.delete(name)

    def delete_folder(self, name: str) -> bool:
        """Delete an empty folder; False if it is not empty."""
        self.check()
        try:
            os.rmdir(self._at(name), dir_fd=self.fd)
        except OSError:
            return False
        return True

    def rename(self, name: str, new: str) -> None:
        """Rename a regular file or folder."""
        self.check()
        if not stat.S_ISDIR(self.kind(name)):
            self._check_plain(name)
        if self.kind(new):
            raise _not_plain(self.path / new, "a free name")
        self._replace(name, new)

    def temporary_folder(self, name: str) -> Directory:
        """A new folder, to be renamed to `name` when it is complete."""
        return self.folder(temporary_name(name), create=True)

    def _replace(self, name: str, new: str) -> None:
        with self._naming(new):
            os.replace(self._at(name), self._at(new), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _check_plain(self, name: str) -> None:
        """Raise an error if the name exists and is not a regular file."""
        if (kind := self.kind(name)) and not stat.S_ISREG(kind):
            raise _not_plain(self.path / name, "a regular file")

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """A context whose OSErrors name the full path."""
        try:
            yield
        except OSError as error:
            if not isinstance(error, DirectoryError):
                error.filename = str(self.path / name)
                error.filename2 = None
            raise

    # ------------------------------------------------------------ one at a time

    @contextmanager
    def exclusive(self, seconds: float = 10.0) -> Iterator[None]:
        """A context that excludes other writers that do not hold the training lock, such as evaluations."""
        locked = False
        if fcntl is not None and self.fd is not None:
            locked = self._flock(fcntl.LOCK_EX, time.monotonic() + seconds)
        try:
            yield
        finally:
            if locked and self.fd is not None:
                fcntl.flock(self.fd, fcntl.LOCK_UN)

    def _flock(self, kind: int, deadline: float) -> bool:
        while True:
            try:
                fcntl.flock(self.fd, kind | fcntl.LOCK_NB)  # type: ignore[arg-type]
                return True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DirectoryError(
                        self.path,
                        "is in use by another evaluation, or by a training that is starting",
                        "Wait until it ends, or stop it.",
                        errno.EWOULDBLOCK,
                    ) from None
            except OSError:  # a file system without flock
                return False
            time.sleep(0.02)


_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def inode(status: os.stat_result) -> Inode:
    """The identity of a file or folder: equal for two paths to the same one."""
    return status.st_dev, status.st_ino


def _not_plain(path: Path, kind: str) -> DirectoryError:
    return DirectoryError(
        path,
        f"is not {kind} but a link, a pipe or a device; nothing was written to it",
        "Move it away, or choose another folder with --run-dir DIR.",
        errno.ELOOP,
    )
