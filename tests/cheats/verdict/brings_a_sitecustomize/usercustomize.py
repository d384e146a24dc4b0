"""Runs after sitecustomize, where Python looks for users' own."""

import sitecustomize  # noqa: F401
