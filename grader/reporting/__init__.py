"""Draws one report in several formats: terminal, HTML, JSON, JUnit, Gradescope and more."""
