"""The report of a folder of results: one HTML file that needs no network and runs nobody else's code."""

from .collecting import Choice, Collected, collect
from .packing import page_data
from .writing import ReportError, check_path, write_report

__all__ = ["Choice", "Collected", "ReportError", "check_path", "collect", "page_data", "write_report"]
