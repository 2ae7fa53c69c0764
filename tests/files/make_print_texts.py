#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# Writes print_texts.h: arrays, options, and the text that NumPy's str() makes of them. Made with
# NumPy 1.24; run it again, from this folder, to add arrays.
import numpy as np

NAMES = {"float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int8": "I8",
         "uint8": "U8", "bool": "BOOL"}
DEFAULT = dict(precision=8, threshold=1000, edgeitems=3, linewidth=75)
nan, inf = np.nan, np.inf
random = np.random.default_rng(20240229)
cases = []


def add(values, dtype, shape=None, turned=False, **options):
    """A case: the array, and whether it is shown with its dimensions reversed."""
    array = np.array(values, dtype=dtype)
    if shape is not None:
        array = array.reshape(shape)
    cases.append((array, turned, {**DEFAULT, **options}))


def add_ramp(count, dtype, shape, **options):
    """A case whose values are 0, 1, 2, ...: not stored."""
    cases.append((np.arange(count).astype(dtype).reshape(shape), None, {**DEFAULT, **options}))


f4, f2, i8, i4, i1, u1, b1 = "f4", "f2", "i8", "i4", "i1", "u1", "?"
# scalars
for value in (0, -0.0, 1, 0.1, 1e16, 123456.789, 0.0001, 1e-5, nan, -inf, 16777217, 3.4028235e38):
    add(value, f4)
for value in (65504, 0.1, 6e-8, 1e-4, -inf):
    add(value, f2)
add(-7, i4)
add(2**63 - 1, i8)
add(True, b1)
# rows of floats
add([1, 2, 3], f4)
add([0.1, 0.25, 100], f4)
add([0.0, -0.0], f4)
add([nan, inf, -inf, 1.5], f4)
add([nan], f4)
add([inf, nan], f2)
add([-inf, nan], f4)
add([0.0001, 1], f4)
add([1e-5, 1.2345678e-5], f4)
add([1e8, 1], f4)
add([99999992, 1e6], f4)
add([1000, 1], f4)
add([1000.5, 1], f4)
add([1001, 1], f2)
add([1000.5, 1], f2)
add([-43104, 33184, inf], f2)
add([1e-40, 1e38, -1e-45], f4)
add([nan, 1e-20, -inf], f4)
add([2.0**-44, 2.0**-24], f4)
add([1 / 3, 2 / 3], f2)
add([9.9999999e-5, 0.5], f4)
# other types
add([True, False, True], b1)
add([-128, 0, 127], i1)
add([0, 255, 7], u1)
add([-2**31, 5], i4)
add([-2**63, 2**63 - 1], i8)
# nested
add(range(6), i4, (2, 3))
add([True, False] * 2, b1, (2, 2))
add(random.normal(size=24), f4, (2, 3, 4))
add(random.normal(size=16) * 1e5, f4, (4, 4))
add(random.normal(size=12), f2, (3, 4), turned=True)
add(range(16), i8, (2, 2, 2, 2))
add(range(24), u1, (4, 1, 6), turned=True)
add([3], i4, (1,) * 8)
# without elements
add([], f4)
add([], i4, (3, 0))
add([], f2, (0, 2, 2))
# long lines
add(random.normal(size=40), f4)
add(range(100, 140), i4)
add(random.normal(size=30), f4, (2, 15))
add(random.normal(size=20) * 1e-6, f4, linewidth=40)
add(range(10), i4, linewidth=1)
add([1.5, 22.25, 3], f4, (1, 3), linewidth=10)
# precision
add([0.001, 0.002, 0.5, 0.0049], f4, precision=2)
add([1.5, 2.5, 250], f4, precision=0)
add([1e-9, 0.125, 3.999999], f4, precision=3)
add([0.5, 1.5, 2.5, 0.05], f2, precision=1)
add(random.normal(size=5), f4, precision=20)
# summaries
add_ramp(1000, i4, (1000,))
add_ramp(1001, i4, (1001,))
add_ramp(1001, f4, (1001,))
add_ramp(2000, i4, (40, 50))
add_ramp(6000, f4, (10, 20, 30))
add_ramp(2002, u1, (1001, 2))
add_ramp(2002, i8, (2, 1001))
add_ramp(1200, i8, (2, 1, 600))
add_ramp(100, i4, (10, 10), threshold=10, edgeitems=1)
add_ramp(100, f2, (100,), threshold=99, edgeitems=20, linewidth=60)
add_ramp(20, i4, (4, 5), threshold=0, edgeitems=2)


def quoted(text):
    lines = text.split("\n")
    ends = ["\\n"] * (len(lines) - 1) + [""]
    return "\n     ".join('"%s%s"' % pair for pair in zip(lines, ends))


def stored(array):
    if array.size == 0:
        return "NULL"
    unsigned = array.view("u%d" % array.itemsize) if array.dtype != bool else array.view("u1")
    return "(const uint64_t[]){%s}" % ", ".join("0x%x" % x for x in unsigned.ravel())


with open("print_texts.h", "w") as out:
    out.write("""// SPDX-License-Identifier: Apache-2.0
// Arrays and what NumPy 1.24 prints of them. Written by make_print_texts.py.
#ifndef BERTH_TEST_PRINT_TEXTS_H
#define BERTH_TEST_PRINT_TEXTS_H

#include "berth/berth.h"

typedef struct print_text {
    berth_dtype dtype;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
    bool is_turned;       ///< printed with its dimensions reversed
    bool is_ramp;         ///< elements are 0, 1, 2, ... converted to the type
    const uint64_t* bits; ///< else: of each element; NULL if there are none
    berth_print_options options;
    const char* expected;
} print_text;

// clang-format off
static const print_text print_texts[] = {
""")
    for array, turned, options in cases:
        np.set_printoptions(**options)
        shown = str(array.T if turned else array)
        dims = ", ".join(map(str, array.shape)) or "0"
        out.write("    {BERTH_%s, %d, {%s}, %s, %s,\n     %s,\n     {%d, %d, %d, %d},\n     %s},\n" % (
            NAMES[array.dtype.name], array.ndim, dims, str(bool(turned)).lower(),
            str(turned is None).lower(), "NULL" if turned is None else stored(array),
            options["precision"], options["threshold"], options["edgeitems"],
            options["linewidth"], quoted(shown)))
    out.write("""};
// clang-format on

#endif // BERTH_TEST_PRINT_TEXTS_H
""")
print(len(cases), "arrays")
