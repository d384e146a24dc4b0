"""`python -m grader`, and the scripts of an installed package."""

import sys


def main() -> None:
    """Run a command, or say why nothing can be run here."""
    # Nothing that knows the language can be read yet; so all of this is said in both languages.
    if sys.version_info < (3, 11):  # noqa: UP036
        this = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"Python 3.11 or newer is needed; this is {this}. Name another: "
            "`make BASE_PYTHON=python3.12 grade`.\n"
            f"需要 Python 3.11 以上，这里是 {this}。请换一个：`make BASE_PYTHON=python3.12 grade`。"
        )
    if sys.platform == "win32":
        sys.exit(
            "Answers cannot be run on Windows itself. Install WSL (`wsl --install`) and work "
            "in it.\n"
            "答案不能直接在 Windows 上运行。请安装 WSL（`wsl --install`），在 WSL 里使用。"
        )
    try:
        from grader.cli.app import run_command_line

        run_command_line()
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "torch", "pytest", "rich", "typer", "packaging"):
            raise
        sys.exit(
            f"{error.name} is not installed for this Python. Install attention-by-hand anew; in a "
            "clone `make grade` does it.\n"
            f"这个 Python 没有安装 {error.name}。请重新安装 attention-by-hand；在克隆的项目里，"
            "`make grade` 会安装。"
        )


if __name__ == "__main__":
    main()
