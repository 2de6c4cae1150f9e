"""Run the notebooks of docs/notebooks in Jupyter's kernel, and keep what their cells print and draw.

``python docs/notebook_runs.py`` runs all of them and stores the outputs; so does ``python docs/make.py``.
A notebook stays as small and as comparable as a text file: no times, no counters, no machine's names, and
one form of each output.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent / "notebooks"
SHOWN = ("image/svg+xml", "text/html", "text/plain")
"""Forms of an output, the best first; only the first that a cell has is kept, and plain text beside HTML."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks() -> list[Path]:
    """Every notebook of the site."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """Read a notebook, as it is stored."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path) -> Any:
    """Run a notebook in a folder of its own, and return it with fresh outputs; a cell that fails raises.

    The kernel talks through sockets in that folder: two kernels that start at the same time cannot want
    the same port. It reads no settings of the user.
    """
    notebook = read(path)
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        (Path(folder) / "work").mkdir()
        own = {"IPYTHONDIR": f"{folder}/ipython", "JUPYTER_RUNTIME_DIR": folder, "MPLBACKEND": "agg"}
        plain = {"COLUMNS": "110", "NO_COLOR": "1", "PYTHONHASHSEED": "0"}
        way = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        manager = AsyncKernelManager(
            kernel_name="python3", transport="ipc", connection_file=f"{folder}/kernel.json"
        )
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=None,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": f"{folder}/work"}},
        )
        client.owns_km = True  # it ends the kernel
        client.execute(env={**os.environ, **own, **plain, "PATH": way})
    return tidy(notebook)


def tidy(notebook: Any) -> Any:
    """Leave out what differs from run to run, and what is there twice."""
    notebook.metadata = nbformat.from_dict(METADATA)  # type: ignore[no-untyped-call]
    for place, cell in enumerate(notebook.cells):
        cell.id = f"cell-{place}"
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = None
            if "data" in output:
                best = next(kind for kind in SHOWN if kind in output.data)
                kept = {best, "text/plain"} if best == "text/html" else {best}
                output.data = {kind: value for kind, value in output.data.items() if kind in kept}
    return notebook


def text(notebook: Any) -> str:
    """Return the file of a notebook."""
    return f"{nbformat.writes(notebook, version=4)}\n"  # type: ignore[no-untyped-call]


def printed(notebook: Any) -> list[str]:
    """Return what the cells print, one text per code cell; pictures and tables are not in it."""
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def refresh(path: Path) -> None:
    """Run a notebook and store its outputs."""
    before, now = path.read_text(), text(executed(path))
    if now != before:
        path.write_text(now)
        print(f"updated {path.relative_to(FOLDER.parent.parent)}")


if __name__ == "__main__":
    for each in notebooks():
        refresh(each)
