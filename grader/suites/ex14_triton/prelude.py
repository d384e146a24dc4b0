"""Readies Triton before the submission is run.

`launches` counts how often each kernel was launched, by its name; `largest` tells how many elements
it has read at once, at the most. Off a GPU kernels run in Triton's interpreter, which reads and
writes wherever a pointer leads; here an access outside the tensors of its launch is an IndexError
that names the kernel, its program, and the tensor. On a GPU nobody watches, and `largest` is empty.
"""

import ast
import os
import sys
import warnings
from dataclasses import replace
from importlib import import_module

import numpy as np

os.environ.setdefault("TRITON_INTERPRET", "1")  # "0" is there already in a worker on CUDA
INTERPRETED = os.environ["TRITON_INTERPRET"] == "1"
# The builder's methods that reach memory: where their pointers and their mask stand, what they do.
ACCESSES = {
    "create_masked_load": (0, 1, "reads"),
    "create_masked_store": (0, 2, "writes"),
    "create_atomic_rmw": (1, 3, "writes"),
    "create_atomic_cas": (0, None, "writes"),
}
# Those that make a pointer of another one, and where that stands.
DERIVATIONS = {
    "create_addptr": 0, "create_broadcast": 0, "create_expand_dims": 0, "create_reshape": 0,
    "create_trans": 0, "create_splat": 1,
}  # fmt: skip
# What makes the pointers of a whole block; block pointers ended with Triton 3.7.
BLOCKS = {"BlockPointerHandle", "TensorDescHandle"}
ORIGIN = "comes from"  # of a pointer: the address of the argument that it was computed from
# Triton warns of what an answer may use, and a report would show it as what the answer printed.
warnings.filterwarnings("ignore", "tl.make_block_ptr is deprecated")
launches = {}
largest = {}
needs = ""  # what keeps kernels from being run here at all


def imported(name):
    """Import a module of Triton's, whose own functions are interpreted if kernels are."""
    library = import_module("triton.language")
    if (type(library.max).__name__ == "InterpretedFunction") != INTERPRETED:
        for old in [m for m in sys.modules if m.split(".")[0] == "triton"]:
            if not old.startswith("triton._C"):  # this part can be loaded once only
                del sys.modules[old]
    return import_module(name)


def count(kind):
    """Wrap a kind of kernel, so that every launch of such a kernel is counted."""
    run = kind.run

    def counted(self, *args, **kwargs):
        name = self.fn.__name__
        launches[name] = launches.get(name, 0) + 1
        return run(self, *args, **kwargs)

    kind.run = counted


def why_not_compiled():
    """Return why Triton cannot compile here, or ""."""
    try:
        _ = imported("triton.runtime.driver").driver.active.utils
    except OSError:
        return "needs a C compiler that Triton can start: apt-get install gcc"
    except Exception as error:
        first = str(error).partition("\n")[0]
        return f"needs a GPU that Triton compiles for ({type(error).__name__}: {first})"
    return ""


class Region:
    """The bytes from the first to the last element of a tensor, and the tensor's name."""

    def __init__(self, name, tensor):
        steps = [(n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)]
        self.name, self.shape, self.itemsize = name, tuple(tensor.shape), tensor.element_size()
        self.low = tensor.data_ptr()
        self.high = self.low + ((1 + sum(steps)) * self.itemsize if tensor.numel() else 0)
        self.storage = tensor.untyped_storage().data_ptr()

    def outside(self, addresses):
        """Return where an element at these addresses would not lie in the region."""
        return (addresses < self.low) | (addresses + self.itemsize > self.high)

    def distance(self, addresses):
        """Return how far the farthest of these addresses lies outside of the region, in words."""
        far = max(int(addresses.max()) + self.itemsize - self.high, 0)
        side = "past the end"
        if not far:
            far, side = self.low - int(addresses.min()), "before the beginning"
        far = -(-far // self.itemsize)
        elements = "1 element" if far == 1 else f"{far} elements"
        return f"{elements} {side} of {self.name} ({' x '.join(map(str, self.shape))})"


def regions(name, value):
    """Return the regions of the tensors in an argument of a launch."""
    value = getattr(value, "base", value)  # of a tensor descriptor
    if isinstance(value, tuple):
        return [region for i, item in enumerate(value) for region in regions(f"{name}[{i}]", item)]
    return [Region(name, value)] if hasattr(value, "untyped_storage") else []


class Guard:
    """A guard that checks every address before a launch reads or writes it."""

    def __init__(self, interpreter):
        self.kernel, self.regions = "", []
        builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
        executor._init_args_hst = self.learning(executor._init_args_hst)
        interpreter._implicit_cvt = self.marked(interpreter._implicit_cvt)
        for name, position in DERIVATIONS.items():
            setattr(builder, name, self.derived(getattr(builder, name), position))
        for name, (pointers, mask, verb) in ACCESSES.items():
            setattr(builder, name, self.watched(getattr(builder, name), pointers, mask, verb))
        for name in BLOCKS & vars(interpreter).keys():
            kind = getattr(interpreter, name)
            kind.materialize_pointers = self.materialized(kind.materialize_pointers)

    def learning(self, prepare):
        """Wrap the preparation of a launch's arguments, so that the guard learns of the tensors."""

        def prepared(launch, args, kwargs):
            args, kwargs = prepare(launch, args, kwargs)
            given = dict(zip(launch.arg_names, args, strict=False)) | kwargs
            self.kernel = launch.fn.__name__
            self.regions = [r for name, value in given.items() for r in regions(name, value)]
            return args, kwargs

        return prepared

    def marked(self, convert):
        """Wrap the conversion of a tensor to a pointer, so that the pointer keeps its origin."""

        def converted(value):
            result = convert(value)
            if hasattr(value, "untyped_storage"):
                result.handle.attr[ORIGIN] = value.data_ptr()
            return result

        return converted

    def derived(self, method, position):
        """Wrap a method that derives a pointer from another, so that the origin is handed on."""

        def with_origin(builder, *args, **kwargs):
            result, origin = method(builder, *args, **kwargs), args[position].attr
            if ORIGIN in origin:
                result.attr[ORIGIN] = origin[ORIGIN]
            return result

        return with_origin

    def materialized(self, materialize):
        """Wrap a method of block pointers and descriptors, so that the origin is handed on."""

        def with_origin(block, *args, **kwargs):
            pointers, mask = materialize(block, *args, **kwargs)
            pointers.attr.update(block.base.attr)
            return pointers, mask

        return with_origin

    def watched(self, method, pointers, mask, verb):
        """Wrap a method that accesses memory, so that its addresses are checked first."""

        def checked(builder, *args, **kwargs):
            masked = True if mask is None else args[mask].data
            self.look(builder.grid_idx, args[pointers], masked, verb)
            return method(builder, *args, **kwargs)

        return checked

    def look(self, program, pointers, mask, verb):
        """Raise an IndexError if an unmasked address lies outside of its tensors.

        A pointer may reach every tensor that shares the memory of its origin. A pointer of unknown
        origin may reach every tensor of the launch.
        """
        addresses = np.asarray(pointers.data)
        if verb == "reads":
            largest[self.kernel] = max(largest.get(self.kernel, 0), addresses.size)
        home = [r for r in self.regions if r.low == pointers.attr.get(ORIGIN)]
        shared = {region.storage for region in home}
        wrong = np.broadcast_to(mask, addresses.shape)
        for region in self.regions:
            if not home or region.storage in shared:
                wrong = wrong & region.outside(addresses)
        if wrong.any():
            place = home[0].distance(addresses[wrong]) if home else "outside its tensors"
            raise IndexError(
                f"{self.kernel}, program {program}, {verb} {place}: mask what is not there, "
                "unless the strides are wrong"
            )


def leave_the_submission_alone(interpreter):
    """Give a kernel's file only the names that rewriting its kernels has put into them.

    Triton would add all names that its interpreter has imported to that file.
    """
    rewriter_class = interpreter.FunctionRewriter
    transform = rewriter_class._transform_ast

    def transformed(rewriter, source):
        tree = transform(rewriter, source)
        rewriter.added = names_in(tree) - names_in(ast.parse(source))
        return tree

    def compiled(rewriter, tree):
        code = compile(tree, filename=rewriter.filename, mode="exec")
        names, made = rewriter.fn.__globals__, dict(rewriter.kwargs)
        for name in rewriter.added & vars(interpreter).keys():
            names.setdefault(name, getattr(interpreter, name))
        exec(code, names, made)
        return made[rewriter.fn.__name__]

    rewriter_class._transform_ast = transformed
    rewriter_class._compile_and_exec = compiled


def names_in(tree):
    """Return the names that a tree of Python uses."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def save_time(interpreter):
    """Do once what Triton does at every call of a function of its own, or at every addition."""
    builder, ready = interpreter.interpreter_builder, set()
    builder.options = replace(builder.options, sanitize_overflow=False)

    def called(function, *args, **kwargs):
        names = id(function.fn.__globals__)
        if names not in ready:  # what this changes there is never changed back
            interpreter._patch_lang(function.fn)
            ready.add(names)
        return function.rewrite()(*args, **kwargs)

    interpreter.InterpretedFunction.__call__ = called


count(imported("triton.runtime.jit").JITFunction)
if INTERPRETED:
    os.environ["TRITON_FRONT_END_DEBUGGING"] = "1"  # exceptions as a kernel raised them
    interpreter = imported("triton.runtime.interpreter")
    count(interpreter.InterpretedFunction)
    Guard(interpreter)
    leave_the_submission_alone(interpreter)
    save_time(interpreter)
else:
    needs = why_not_compiled()
