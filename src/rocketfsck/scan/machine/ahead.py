"""Compiles kernels to object code, in a process of its own: the only place that imports Numba.

    python -m rocketfsck.scan.machine.ahead PROCESSOR DIRECTORY MODULE:FUNCTION…

    kernel, the function around it (`scan.machine.frames`) --Numba--> LLVM --PROCESSOR--> DIRECTORY/NAME.o

Without functions all kernels are compiled, and linked by the C compiler to DIRECTORY/kernels-PROCESSOR.so,
which a wheel takes along (`hatch_build.py`).

PROCESSOR is a row of `scan.machine.library.PROCESSORS`. An object has one symbol for others, its kernel's
name, and needs none: kernels neither raise nor allocate. The source is compiled for the processor's vectors,
so that Numba has to hear of it before it is imported.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rocketfsck.scan.machine import frames, jit
from rocketfsck.scan.machine.frames import signature_of, source_of
from rocketfsck.scan.machine.library import KERNELS, PROCESSORS, library_name, symbol_of

_COUNTED = re.compile(r"^define [^@]*(@NRT_(?:inc|dec)ref)\(.*?^}$", re.MULTILINE | re.DOTALL)
_UNCOUNTED = r"define internal void \1(ptr %0) alwaysinline {\n  ret void\n}"
"""Nothing that a kernel is given belongs to Numba's memory, so nobody counts who uses it."""
_TRIPLE = re.compile(r"^target triple = .*$", re.MULTILINE)
_LAYOUT = re.compile(r"^target datalayout = .*$", re.MULTILINE)


_PARTS = "-Wl,--build-id=none,-z,noexecstack,-z,relro,-z,now"
LINKER = (os.environ.get("CC", "cc"), "-shared", "-nostdlib", "-s", _PARTS)


def compiled(name: str, processor: str) -> bytes:
    """The object code of a kernel for a processor."""
    import numba
    from llvmlite import binding
    from numba import types

    from rocketfsck.scan.machine.compiler import njit, pointer

    module, _, function_name = name.partition(":")
    function = getattr(importlib.import_module(module), function_name)
    plain = function.function if isinstance(function, jit.Kernel) else function
    text, names = source_of(signature_of(plain))
    scope: dict[str, Any] = {"np": np, "carray": numba.carray, "pointer": pointer, "kernel": njit(plain)}
    scope |= names
    exec(compile(text, f"<{name}>", "exec"), scope)
    framed = njit(scope["framed"], no_cpython_wrapper=True, no_cfunc_wrapper=True)
    framed.compile((types.int64,))
    made = framed.overloads[types.int64,]
    assembly = made.library.get_llvm_str()
    kind = PROCESSORS[processor]
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(kind.triple).create_target_machine(
        cpu=kind.llvm, opt=3, reloc="pic", codemodel="default"
    )
    for pattern, text in (
        (_COUNTED, _UNCOUNTED),
        (_TRIPLE, f'target triple = "{kind.triple}"'),
        (_LAYOUT, f'target datalayout = "{target.target_data}"'),
    ):
        assembly = pattern.sub(text, assembly)
    parsed = binding.parse_assembly(assembly)
    for item in parsed.functions:
        if item.name == made.fndesc.llvm_func_name:
            item.name = symbol_of(name)
        elif not item.is_declaration:
            item.linkage = "internal"
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(parsed, binding.create_pass_builder(target, binding.create_pipeline_tuning_options()))
    needed = [item.name for item in parsed.functions if item.is_declaration and item.name[:5] != "llvm."]
    if needed:
        raise SystemExit(f"{name} calls {', '.join(needed)}")
    return bytes(target.emit_object(parsed))


def linked(names: Iterable[str], library: Path) -> None:
    """Link the objects of kernels, in the same directory, to a library that needs no other one. Raises
    CalledProcessError, OSError."""
    symbols = sorted(map(symbol_of, names))
    shown = library.with_suffix(".map")
    shown.write_text(f"{{ global: {'; '.join(symbols)}; local: *; }};\n")
    objects = [library.with_name(f"{symbol}.o") for symbol in symbols]
    subprocess.run([*LINKER, f"-Wl,--version-script={shown}", "-o", library, *objects], check=True)


def main(arguments: list[str]) -> int:
    """Compile what is named, or all; 0."""
    processor, directory, *names = arguments
    os.environ["NUMBA_CPU_NAME"] = PROCESSORS[processor].numba
    os.environ["NUMBA_CPU_FEATURES"] = ""
    os.environ["NUMBA_DISABLE_JIT"] = "0"
    frames.COMPILING = True
    for name in names or KERNELS:
        (Path(directory) / f"{symbol_of(name)}.o").write_bytes(compiled(name, processor))
    if not names:
        linked(KERNELS, Path(directory) / library_name(processor))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
