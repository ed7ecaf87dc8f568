"""What happens when a mapped byte cannot be had: zeros are put in its place, and whoever reads them is told.

A mapped file that shrinks, or whose disk fails, has the kernel send SIGBUS to the thread that touches the
byte; the default is the process's end. Here a handler of compiled code looks whether the address lies in one
of the ranges that are being read (`Guard`): then it notes the address, puts zeros over the range from there
to its end, and the thread goes on; `Guard.hit` says so afterwards. Any other SIGBUS is given to whoever
handled it before. Python's own signal handlers are of no use here: they run when the instruction is over.

The handler allocates nothing, takes no lock and calls only `mmap` and `sigaction`. The place of `si_addr` and
the layout of `struct sigaction` are those of 64-bit Linux, where it is installed only.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import signal
import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

GUARD_COUNT = 256
"""Ranges that can be guarded at once."""
MACHINES = frozenset({"x86_64", "aarch64"})

_ACTION_SIZE = 152  # struct sigaction
_FLAGS_AT = 136
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_SI_CODE_AT, _SI_ADDR_AT = 8, 16
_MAP_FIXED = 0x10

_lock = threading.Lock()
_handler: _Handler | None = None
_failed = False


class Guard:
    """A range of addresses, `start:start + size`, whose faults are noted.

    Raises OSError if there are too many, or no handler of SIGBUS can be installed.
    """

    __slots__ = ("_row", "_start")

    def __init__(self, start: int, size: int) -> None:
        handler = installed()
        if handler is None:
            raise OSError("no handler of SIGBUS can be installed here")
        self._start = start
        self._row = handler.enter(start, start + size)

    @property
    def hit(self) -> int | None:
        """The first byte of the range, counted from its start, that could not be had; None: all could."""
        address = int(self._row[2])
        return address - self._start if address else None

    def close(self) -> None:
        self._row[1] = 0  # the range is empty, and the row free

    @staticmethod
    def count() -> int:
        """How many ranges are guarded now."""
        return 0 if _handler is None else int(np.count_nonzero(_handler.rows[:, 1]))


class _Handler:
    """The compiled handler, its table of ranges, and what handled SIGBUS before."""

    def __init__(self) -> None:
        from rocketfsck.scan.compiler import binding

        libc = ctypes.CDLL(None, use_errno=True)
        self._sigaction = libc.sigaction
        self._sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        module = binding.parse_assembly(_handler_code())
        self._engine = binding.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.address = int(self._engine.get_function_address("on_sigbus"))
        functions = self._view("functions", 2)
        for index, name in enumerate(("mmap", "sigaction")):
            functions[index] = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0
        self._previous = int(self._engine.get_global_value_address("previous"))
        self.rows = self._view("ranges", 3 * GUARD_COUNT).reshape(GUARD_COUNT, 3)

    def _view(self, name: str, count: int) -> NDArray[np.int64]:
        address = int(self._engine.get_global_value_address(name))
        return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))

    def install(self) -> bool:
        """Make it the handler of SIGBUS, if it is not; another one that came between comes behind it now."""
        current = (ctypes.c_uint8 * _ACTION_SIZE)()
        if self._sigaction(signal.SIGBUS, None, current):
            return False
        if int.from_bytes(current[:8], sys.byteorder) == self.address:
            return True
        ctypes.memmove(self._previous, current, _ACTION_SIZE)
        wanted = bytearray(_ACTION_SIZE)
        wanted[:8] = self.address.to_bytes(8, sys.byteorder)
        wanted[_FLAGS_AT : _FLAGS_AT + 4] = (_SA_SIGINFO | _SA_ONSTACK).to_bytes(4, sys.byteorder)
        action = (ctypes.c_uint8 * _ACTION_SIZE).from_buffer(wanted)
        return not self._sigaction(signal.SIGBUS, action, None)

    def enter(self, start: int, end: int) -> NDArray[np.int64]:
        """The row of the table that the range has now: start, end, address of the first fault or 0."""
        with _lock:
            free = np.flatnonzero(self.rows[:, 1] == 0)
            if not len(free):
                raise OSError("too many mapped files")
            row: NDArray[np.int64] = self.rows[free[0]]
            row[0], row[2] = start, 0
            row[1] = end
        return row


def installed() -> _Handler | None:
    """The handler, now handling SIGBUS; None where that cannot be."""
    global _handler, _failed
    if sys.platform != "linux" or platform.machine() not in MACHINES or sys.maxsize < 1 << 32:
        return None
    with _lock:
        if _handler is None and not _failed:
            try:
                _handler = _Handler()
            except (AttributeError, OSError, RuntimeError):
                _failed = True
        if _handler is not None and _handler.install():
            return _handler
    return None


def _handler_code() -> str:
    """The handler in LLVM's language.

    void on_sigbus(int signal, siginfo_t *info, void *context) {
        address = info->si_code > 0 ? info->si_addr : 0;  // 0: no fault, somebody sent it
        for (row = 0; row < GUARD_COUNT; row++)
            if (ranges[row].start <= address && address < ranges[row].end) {
                if (!ranges[row].fault) ranges[row].fault = address;
                page = address & -page_size;
                if (mmap(page, ranges[row].end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
                    return;
            }
        sigaction(signal, &previous, NULL);  // the instruction is tried again, and fails there
        previous.sa_handler = SIG_DFL;       // which may hand it back
    }
    """
    from rocketfsck.scan.compiler import ir

    i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    module = ir.Module("rocketfsck_sigbus")

    def table(name: str, kind: Any) -> Any:
        variable = ir.GlobalVariable(module, kind, name)
        variable.initializer = ir.Constant(kind, None)
        variable.align = 16
        return variable

    ranges = table("ranges", ir.ArrayType(i64, 3 * GUARD_COUNT))
    functions = table("functions", ir.ArrayType(i64, 2))
    previous = table("previous", ir.ArrayType(i8, _ACTION_SIZE))
    pointer = i8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [i32, pointer, pointer])
    function = ir.Function(module, kind, "on_sigbus")
    number, info, _ = function.args
    start, loop, body, found, following, others, done = (
        function.append_basic_block(name)
        for name in ("start", "loop", "body", "found", "following", "others", "done")
    )
    builder = ir.IRBuilder(start)

    def constant(value: int) -> Any:
        return ir.Constant(i64, value)

    def load(address: Any) -> Any:
        return builder.load(builder.inttoptr(address, i64.as_pointer()), typ=i64)

    def store(value: Any, address: Any) -> None:
        builder.store(value, builder.inttoptr(address, i64.as_pointer()))

    rows = builder.ptrtoint(ranges, i64)
    calls = builder.ptrtoint(functions, i64)
    facts = builder.ptrtoint(info, i64)
    code_at = builder.inttoptr(builder.add(facts, constant(_SI_CODE_AT)), i32.as_pointer())
    is_fault = builder.icmp_signed(">", builder.load(code_at, typ=i32), ir.Constant(i32, 0))
    place = load(builder.add(facts, constant(_SI_ADDR_AT)))
    address = builder.select(is_fault, place, constant(0))
    builder.branch(loop)

    builder.position_at_end(loop)
    row = builder.phi(i64)
    row.add_incoming(rows, start)
    last = builder.add(rows, constant(24 * GUARD_COUNT))
    builder.cbranch(builder.icmp_unsigned("<", row, last), body, others)

    builder.position_at_end(body)
    low, high = load(row), load(builder.add(row, constant(8)))
    inside = builder.and_(
        builder.icmp_unsigned("<=", low, address), builder.icmp_unsigned("<", address, high)
    )
    builder.cbranch(inside, found, following)

    builder.position_at_end(found)
    noted = builder.add(row, constant(16))
    before = load(noted)
    is_first = builder.icmp_unsigned("==", before, constant(0))
    store(builder.select(is_first, address, before), noted)
    page = builder.and_(address, constant(-mmap.PAGESIZE))
    mmap_kind = ir.FunctionType(i64, [i64, i64, i32, i32, i32, i64])
    mmap_call = builder.inttoptr(load(calls), mmap_kind.as_pointer())
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    mapped = builder.call(
        mmap_call,
        [
            page,
            builder.sub(high, page),
            ir.Constant(i32, mmap.PROT_READ),
            ir.Constant(i32, flags),
            ir.Constant(i32, -1),
            constant(0),
        ],
    )
    builder.cbranch(builder.icmp_signed("==", mapped, constant(-1)), others, done)

    builder.position_at_end(following)
    row.add_incoming(builder.add(row, constant(24)), following)
    builder.branch(loop)

    builder.position_at_end(others)
    action_kind = ir.FunctionType(i32, [i32, i64, i64])
    action_call = builder.inttoptr(load(builder.add(calls, constant(8))), action_kind.as_pointer())
    builder.call(action_call, [number, builder.ptrtoint(previous, i64), constant(0)])
    store(constant(0), builder.ptrtoint(previous, i64))
    builder.branch(done)

    builder.position_at_end(done)
    builder.ret_void()
    return str(module)
