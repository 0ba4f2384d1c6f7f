"""The data doctor: is parallel text fit to train on? What is wrong, how often, and where the worst of it
stands."""

from regard.text.doctor.examine import examine
from regard.text.doctor.findings import Finding, Report
from regard.text.doctor.page import render

__all__ = ["Finding", "Report", "examine", "render"]
