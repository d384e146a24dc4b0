"""Writes the report as JUnit XML: a suite for each exercise, a case for each check.

The attributes are those that pytest's `xunit1` family writes, which CI systems read.
"""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from grader.core.records import ExerciseReport, Report, Verdict
from grader.core.translation import Words
from grader.reporting.items import ReportItem, list_report_items
from grader.worker.parent.harmless_text import clean_worker_text

_VERDICT_TAGS = {
    Verdict.FAILED: "failure",
    Verdict.GRADER_FAULT: "error",
    Verdict.BLOCKED: "skipped",
    Verdict.NOT_RUN: "skipped",
}


def render_junit_report(report: Report, words: Words) -> str:
    """Return the report as a document with one `testsuites` element."""
    root = Element("testsuites", name="attention-by-hand", time=f"{report.seconds:.3f}")
    for exercise in report.exercises:
        _add_junit_suite(root, exercise, report, words)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _add_junit_suite(root: Element, e: ExerciseReport, report: Report, words: Words) -> None:
    listed = list(list_report_items(e, words))
    suite = SubElement(root, "testsuite", name=e.slug, time=f"{e.seconds:.3f}")
    properties = SubElement(suite, "properties")
    for name, value in _build_junit_properties(e, report).items():
        SubElement(properties, "property", name=name, value=value)
    for item in listed:
        _add_junit_case(suite, e, item)
    if not listed:  # an error of ours, before any check was asked
        case = SubElement(suite, "testcase", classname=e.slug, name="grading", time="0")
        SubElement(case, "error", message=e.sentence).text = e.sentence
    kinds = [child.tag for case in suite.iter("testcase") for child in case]
    suite.set("tests", str(len(suite.findall("testcase"))))
    for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(kinds.count(kind)))


def _build_junit_properties(e: ExerciseReport, report: Report) -> dict[str, str]:
    known = {"path": e.path, "sha256": e.sha256, "seed_id": report.seed_id}
    known |= {"isolation": report.isolation, "device": report.device}
    if e.score is not None:
        known |= {"earned": str(e.score.earned), "possible": str(e.score.possible)}
    return known


def _add_junit_case(suite: Element, e: ExerciseReport, item: ReportItem) -> None:
    case = SubElement(suite, "testcase", classname=e.slug, name=item.id, time=f"{item.seconds:.3f}")
    told = _drop_non_xml_characters(item.told)
    if (kind := _VERDICT_TAGS.get(item.verdict)) is not None:
        first = told.splitlines()[0] if told else item.says
        SubElement(case, kind, message=first).text = f"{item.says}\n{told}".strip()
    elif told:
        SubElement(case, "system-out").text = told


def _drop_non_xml_characters(text: str) -> str:
    """Drop the characters of `text` that XML 1.0 does not allow."""
    return clean_worker_text(text).replace("\ufffe", "").replace("\uffff", "")
