"""The data doctor: is text fit to train on? What is wrong, how often, and where the worst of it stands.
`examine` looks at parallel text, `inspect` at all other."""

from regard.text.doctor.examine import examine
from regard.text.doctor.findings import Finding, Report
from regard.text.doctor.inspect import inspect
from regard.text.doctor.page import render
from regard.text.doctor.samples import Kind, Sample
from regard.text.doctor.suspects import Vectors

__all__ = ["Finding", "Kind", "Report", "Sample", "Vectors", "examine", "inspect", "render"]
