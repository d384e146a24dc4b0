"""`python -m grader`."""

import sys

try:
    from grader.cli import main

    main()
except ModuleNotFoundError as error:
    if error.name not in ("numpy", "torch", "pytest", "rich", "typer"):
        raise
    sys.exit(f"{error.name} is not installed for this Python. `make grade` installs it into .venv.")
