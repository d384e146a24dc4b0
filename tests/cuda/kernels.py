"""Small kernels, compiled many at a time: each is an answer to ex15 that does something else."""

from grader.core import catalog
from grader.cuda import compiled_answer

EXERCISE = catalog.find_catalog_exercise("ex15_cuda_kernel")
PARAMETERS = """const float* q, const float* k, const float* v, float* out,
    int heads, int Lq, int Lk, int D, float scale, int causal"""


def file_with(kernel: str, launch: str) -> str:
    """A CUDA file whose tiled_attention launches a kernel; its lines are counted from 1."""
    return f"""{kernel}
extern "C" void naive_attention({PARAMETERS}) {{ {launch} }}
extern "C" void tiled_attention({PARAMETERS}) {{ {launch} }}
"""


def compiled(files):
    """By name, the modules of some files, all in one library."""
    return compiled_answer.build_own_cuda_modules(files, EXERCISE, only={})
