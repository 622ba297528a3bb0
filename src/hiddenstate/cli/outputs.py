"""Files that a command is about to write, looked at before the work begins."""

from collections.abc import Iterable
from pathlib import Path


def check_outputs(*outputs: Path | None, reads: Iterable[str | Path | None] = ()) -> None:
    """FileError where an output cannot be written, or would take the place of a file that the command reads."""
    from hiddenstate.core import FileError

    taken = {Path(name).resolve(): name for name in reads if name is not None and Path(name).is_file()}
    for path in outputs:
        if path is None:
            continue
        if path.is_dir() or not path.name:
            raise FileError(f"cannot write {path}: it is a folder; give the name of a file in it.")
        file = next((parent for parent in path.parents if parent.is_file()), None)
        if file is not None:
            raise FileError(
                f"cannot write {path}: {file} is a file, and nothing can be put into it; give another path."
            )
        if not path.parent.is_dir():
            raise FileError(f"cannot write {path}: there is no folder {path.parent}; make it first.")
        if path.resolve() in taken:
            raise FileError(f"{path} is read by this command, and would be replaced; write to another file.")
