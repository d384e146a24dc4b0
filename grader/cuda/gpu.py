"""Writes what nvcc receives of an answer: a library to call, and a program to run under a tool."""

import re
from collections.abc import Sequence

from grader.cuda.source import join_cuda_lines
from grader.cuda.translate import parse_cuda_declaration

_ERROR_FUNCTION = (
    'extern "C" const char* cuda_error(int code) '
    "{ return cudaGetErrorString((cudaError_t)code); }\n"
)
# The arguments of a program: which function, and for each parameter a number. Where the parameter
# is an array, the number says how long it is.
_ARRAY_FUNCTION = """\
static float* answer_0_array(const char* length, bool values) {
  size_t n = strtoull(length, nullptr, 10);
  float *host = (float*)malloc(n * sizeof(float)), *device = nullptr;
  unsigned x = 1;
  for (size_t i = 0; i < n; ++i) {
    x = x * 1664525u + 1013904223u;
    host[i] = values ? (x >> 8) / 8388608.0f - 1.0f : 0.0f;
  }
  if (cudaMalloc(&device, n * sizeof(float)) != cudaSuccess) exit(2);
  if (values) cudaMemcpy(device, host, n * sizeof(float), cudaMemcpyHostToDevice);
  free(host);
  return device;
}
"""
_PROGRAM_HEAD = "#include <cuda_runtime.h>\n#include <cstdlib>\n#include <cstring>\n"


def find_cuda_architecture() -> str:
    """Return nvcc's name for the architecture of this machine's GPU, such as "sm_90"."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def write_cuda_library(text: str, declarations: Sequence[str]) -> str:
    """Return the file with one more function for each declared one.

    The new function calls the declared one and returns CUDA's error code.
    """
    return _add_cuda_doors(text, declarations) + _ERROR_FUNCTION


def write_cuda_program(text: str, declarations: Sequence[str]) -> str:
    """Return the file with a `main` that calls one declared function on its own numbers."""
    calls = "".join(_write_cuda_call(declaration) for declaration in declarations)
    main = f"int main(int count, char** given) {{\n{calls}  return count ? 2 : 0;\n}}\n"
    hidden = f"#define main answer_0_main\n{_add_cuda_doors(text, declarations)}#undef main\n"
    return hidden + _ARRAY_FUNCTION + main


def _add_cuda_doors(text: str, declarations: Sequence[str]) -> str:
    doors = "\n".join(map(_write_cuda_door, declarations))
    return (
        f'{_PROGRAM_HEAD}#line 1 "answer_0.cu"\n{join_cuda_lines(text)}\n#line 1 "doors"\n{doors}\n'
    )


def _write_cuda_door(declaration: str) -> str:
    name, parameters = parse_cuda_declaration(declaration)
    names = ", ".join(re.findall(r"(\w+)$", p)[0] for p in parameters)
    return (
        f'extern "C" int answer_0_{name}({", ".join(parameters)}) {{ {name}({names}); '
        "cudaError_t code = cudaGetLastError(); "
        "return code != cudaSuccess ? code : cudaDeviceSynchronize(); }"
    )


def _write_cuda_call(declaration: str) -> str:
    name, parameters = parse_cuda_declaration(declaration)
    values = ", ".join(_write_cuda_argument(p, f"given[{i}]") for i, p in enumerate(parameters, 2))
    enough = f'count == {len(parameters) + 2} && strcmp(given[1], "{name}") == 0'
    return f"  if ({enough})\n    return answer_0_{name}({values});\n"


def _write_cuda_argument(parameter: str, given: str) -> str:
    if "*" in parameter:
        return f"answer_0_array({given}, {str(parameter.startswith('const')).lower()})"
    return f"(float)atof({given})" if parameter.startswith("float") else f"atoi({given})"
