# SPDX-License-Identifier: Apache-2.0
"""Berth through ctypes, as far as the exchange of tensors needs it.

A DLManagedTensor travels between Python libraries in a capsule called "dltensor", which its
consumer renames to "used_dltensor" when it takes the tensor over.
"""

import ctypes
import sys
import unittest

F32, F16, BF16, I8, I32, I64, U8, BOOL = "f32", "f16", "bf16", "i8", "i32", "i64", "u8", "bool"
DLPACK_CPU = 1


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [
    ("dl_tensor", DLTensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", Deleter),
]
Managed = ctypes.POINTER(DLManagedTensor)


class DtypeInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("block_values", ctypes.c_uint32),
        ("block_bytes", ctypes.c_uint32),
        ("kind", ctypes.c_int),
    ]


class Dims(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("dims", ctypes.c_int32 * 8)]


# ------------------------------------------------------------------------------------- capsules

_NEW_NAME = ctypes.c_char_p(b"dltensor")  # capsules keep the pointer
_USED_NAME = ctypes.c_char_p(b"used_dltensor")
_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_python.PyCapsule_New.restype = ctypes.py_object
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Destructor]


def managed_of(capsule):
    """The DLManagedTensor in a capsule that nobody has consumed."""
    return ctypes.cast(_python.PyCapsule_GetPointer(id(capsule), _NEW_NAME), Managed)


def consume(capsule):
    _python.PyCapsule_SetName(capsule, _USED_NAME)


@_Destructor
def _drop_unused(capsule):
    """Capsules that nobody consumed still own their tensor."""
    if _python.PyCapsule_IsValid(capsule, _NEW_NAME):
        managed = ctypes.cast(_python.PyCapsule_GetPointer(capsule, _NEW_NAME), Managed)
        managed.contents.deleter(managed)


class Deletions:
    """Counts how often the deleter of a DLManagedTensor is called, by standing before it."""

    def __init__(self, managed):
        self.count = 0
        original = ctypes.cast(managed.contents.deleter, ctypes.c_void_p).value

        def call(pointer):
            self.count += 1
            Deleter(original)(pointer)

        self._callback = Deleter(call)
        managed.contents.deleter = self._callback


# ---------------------------------------------------------------------------------------- Berth


class Lent:
    """A tensor of Berth's as other libraries' from_dlpack() wants it."""

    def __init__(self, berth, tensor):
        self._berth = berth
        self._tensor = tensor
        self.deletions = None  # of the last export

    def __dlpack_device__(self):
        return (DLPACK_CPU, 0)

    def __dlpack__(self, stream=None):
        managed = self._berth.lend(self._tensor)
        self.deletions = Deletions(managed)
        address = ctypes.cast(managed, ctypes.c_void_p)
        return _python.PyCapsule_New(address, _NEW_NAME, _drop_unused)


class Berth:
    """A runtime and a context."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.library = library
        pointer, size = ctypes.c_void_p, ctypes.c_uint64
        dims = ctypes.POINTER(ctypes.c_int64)
        for name, result, arguments in [
            ("runtime_create", ctypes.c_int, [pointer, ctypes.POINTER(pointer)]),
            ("runtime_release", None, [pointer]),
            ("context_create", ctypes.c_int, [pointer, ctypes.POINTER(pointer)]),
            ("context_release", None, [pointer]),
            ("context_error", ctypes.c_int, [pointer]),
            ("context_error_text", ctypes.c_char_p, [pointer]),
            ("context_clear_error", None, [pointer]),
            ("last_error", ctypes.c_char_p, []),
            ("dtype_query_info", ctypes.POINTER(DtypeInfo), [ctypes.c_int]),
            ("empty", pointer, [pointer, ctypes.c_int, ctypes.c_int32, dims]),
            ("neg", pointer, [pointer, pointer]),
            ("copy", pointer, [pointer, pointer]),
            ("cast", pointer, [pointer, pointer, ctypes.c_int]),
            ("transpose", pointer, [pointer, pointer, ctypes.c_int32, ctypes.c_int32]),
            ("flip", pointer, [pointer, pointer, Dims]),
            (
                "slice",
                pointer,
                [pointer, pointer, ctypes.c_int32] + [ctypes.c_int64] * 3,
            ),
            ("release", None, [pointer]),
            ("tensor_dtype", ctypes.c_int, [pointer]),
            ("tensor_rank", ctypes.c_int32, [pointer]),
            ("tensor_dims", dims, [pointer]),
            ("tensor_bytes", size, [pointer]),
            ("tensor_read", ctypes.c_int, [pointer, pointer, size]),
            ("tensor_write", ctypes.c_int, [pointer, pointer, size]),
            ("tensor_from_dlpack", pointer, [pointer, Managed, ctypes.c_bool]),
            ("tensor_to_dlpack", ctypes.c_int, [pointer, ctypes.POINTER(Managed)]),
        ]:
            function = getattr(library, "berth_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.dtypes = {}
        while self.dtype_query_info(len(self.dtypes)):
            self.dtypes[self.dtype_query_info(len(self.dtypes)).contents.name.decode()] = len(
                self.dtypes
            )
        self.runtime, self.context = pointer(), pointer()
        self.check(self.runtime_create(None, ctypes.byref(self.runtime)))
        self.check(self.context_create(self.runtime, ctypes.byref(self.context)))

    def close(self):
        self.context_release(self.context)
        self.runtime_release(self.runtime)

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.last_error().decode())

    def result(self, tensor):
        """The tensor of an op, or the context's error."""
        if tensor is not None:
            return tensor
        text = self.context_error_text(self.context).decode()
        self.context_clear_error(self.context)
        raise RuntimeError(text)

    def dtype_name(self, tensor):
        return self.dtype_query_info(self.tensor_dtype(tensor)).contents.name.decode()

    def shape(self, tensor):
        return tuple(self.tensor_dims(tensor)[: self.tensor_rank(tensor)])

    def read(self, tensor):
        """The elements, row-major, as bytes."""
        buffer = ctypes.create_string_buffer(max(self.tensor_bytes(tensor), 1))
        self.check(self.tensor_read(tensor, buffer, self.tensor_bytes(tensor)))
        return buffer.raw[: self.tensor_bytes(tensor)]

    def write(self, tensor, data):
        self.check(self.tensor_write(tensor, data, len(data)))

    def make(self, dtype, shape, data):
        """A new tensor with the elements `data`, as bytes."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        tensor = self.result(self.empty(self.context, self.dtypes[dtype], len(shape), dims))
        self.write(tensor, data)
        return tensor

    def take(self, capsule, read_only=False):
        """A tensor over a capsule's, and the count of its deletions."""
        managed = managed_of(capsule)
        deletions = Deletions(managed)
        tensor = self.result(self.tensor_from_dlpack(self.context, managed, read_only))
        consume(capsule)
        return tensor, deletions

    def lend(self, tensor):
        managed = Managed()
        self.check(self.tensor_to_dlpack(tensor, ctypes.byref(managed)))
        return managed


class Case(unittest.TestCase):
    """A test with a Berth of its own, whose tensors end with it."""

    path = None

    def setUp(self):
        self.berth = Berth(self.path)
        self.kept = []
        self.addCleanup(self.berth.close)
        self.addCleanup(self.release_kept)

    def keep(self, tensor):
        self.kept.append(tensor)
        return tensor

    def release_kept(self):
        while self.kept:
            self.berth.release(self.kept.pop())


def skip(reason):
    """Ends the program as a skipped test of CTest's."""
    print("skipped:", reason)
    sys.exit(77)


def main():
    """Runs the tests of the calling file on the library named by the first argument."""
    Case.path = sys.argv.pop(1)
    unittest.main()
