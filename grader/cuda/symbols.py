"""Checks the symbols that an answer's object file imports and defines."""

import re

# Calls of the library that touch memory: the machine looks at what they touch (see hooks.h).
_WATCHED_FUNCTIONS = ("memcpy", "memmove", "memset", "memcmp", "sincos", "sincosf")
RENAMING_OPTIONS = [f"--redefine-sym={name}=cuda_on_cpu_{name}" for name in _WATCHED_FUNCTIONS]

# The machine that runs kernels, under the names that its headers and g++ give it.
_RUNTIME_SYMBOLS = re.compile(r"__asan_\w+|__ubsan_handle_\w+|_ZN11cuda_on_cpu\w+")
_MATH_SYMBOLS = re.compile(
    r"(?:a?(?:sin|cos|tan)h?|atan2|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|"
    r"[lt]gamma|floor|ceil|trunc|l?l?round|l?l?rint|nearbyint|roundeven|fabs|fmod|remainder|"
    r"fmin|fmax|fdim|fma|copysign|nextafter|nexttoward|ldexp|scalbl?n|ilogb|nan|"
    r"j[01n]|y[01n])[fl]?"
)
_LIBC_SYMBOLS = {
    *("malloc", "calloc", "realloc", "free", *_WATCHED_FUNCTIONS, "_GLOBAL_OFFSET_TABLE_"),
    *("_Znwm", "_Znam", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm"),  # new and delete
    *("__cxa_guard_acquire", "__cxa_guard_release", "__cxa_atexit", "__dso_handle"),
    *("__stack_chk_fail", "__cxa_pure_virtual", "_ZSt9terminatev"),
}
_THROW_SYMBOLS = re.compile(r"_ZSt\d+__throw_\w+")  # of std::array, std::function and their like
DOOR_SYMBOL = "cuda_on_cpu_call"  # what the machine calls
_MANGLED_NAME = re.compile(r"_Z\w+")  # of C++, as templates have them: the machine's own come first
# What runs before main: one place of 8 bytes, with which g++ names the file's variables (hooks.h).
_RUNS_BEFORE_MAIN = re.compile(
    r"^\s*\d+ \.(?:preinit_array|init_array\.|ctors|init_array +(?! |0*8 ))", re.MULTILINE
)


def list_cuda_runtime_names(has: str) -> list[str]:
    """Return the runtime's names that a second definition would replace at linking.

    has  what the runtime's object file defines, in the form of `has` in `explain_cuda_object`
    """
    named = (line.split()[:2] for line in has.splitlines())
    return [name for name, kind in named if kind in "uVW" and "cuda_on_cpu" in name]


def explain_cuda_object(needs: str, has: str, sections: str) -> str:
    """Return what is wrong with an object file, as a sentence; "" if nothing is.

    needs     the names that it uses and does not define, one a line, as nm prints them
    has       the names that it defines, in nm's POSIX format: name, kind, value, size
    sections  its sections, as objdump prints them
    """
    for name, kind, *_ in map(str.split, has.splitlines()):
        local = kind.islower() and kind not in "iuvw"
        if not (local or name == DOOR_SYMBOL or (kind == "W" and _MANGLED_NAME.fullmatch(name))):
            return (
                f"{name} cannot be defined: the program of the kernels has that name already, or "
                "decides itself what it stands for."
            )
    for name in needs.split():
        known = any(p.fullmatch(name) for p in (_RUNTIME_SYMBOLS, _MATH_SYMBOLS, _THROW_SYMBOLS))
        if not (known or name in _LIBC_SYMBOLS):
            return (
                f"{name} is not allowed: a .cu answer may call CUDA's functions, those of "
                "<math.h>, printf, malloc, free, memcpy and memset."
            )
    if _RUNS_BEFORE_MAIN.search(sections):
        return (
            "Something of the file would run before the program begins. Give a variable outside "
            "functions a constant, or compute it in the function that needs it; declare __shared__ "
            "memory in the kernel that uses it."
        )
    return ""
