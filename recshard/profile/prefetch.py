"""The processor's prefetch instruction, for kernels that know early which random line they will touch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of `array[index]` (one dimension, any index), to be written soon; changes nothing.

    An index outside of the array is harmless: a prefetch of an address that is not there is ignored.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        )
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        for_writing, keep, data_cache = number(1), number(3), number(1)
        builder.call(function, [place, for_writing, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, index), code


prefetch: Any = intrinsic(_prefetch)
