"""A class: settings, lateness, collecting, grading many, similar answers, returning reports."""
