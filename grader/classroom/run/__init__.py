"""Grades a class: collects, grades in lanes, keeps, and writes what is found."""
