"""The example notebook, run as a notebook is: in a kernel, cell by cell."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples/tour.ipynb"


def test_the_tour_runs_and_its_report_shows_itself(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # A cell that raises is an error.
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert len(pages) == 1 and "srcdoc=" in pages[0]
    printed = "".join(output["text"] for output in shown if output["output_type"] == "stream")
    assert "Report(classify: " in printed and "one kernel if a fact were known" in printed
