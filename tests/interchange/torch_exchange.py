# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors in and out by DLPack: the same elements, the same memory, deleted once."""

import ctypes
import gc

import berth_ctypes as bc

try:
    import torch
except ImportError as error:
    bc.skip(f"PyTorch is not there ({error})")

DTYPES = {
    bc.F32: torch.float32,
    bc.F16: torch.float16,
    bc.BF16: torch.bfloat16,
    bc.I8: torch.int8,
    bc.I32: torch.int32,
    bc.I64: torch.int64,
    bc.U8: torch.uint8,
}


def sample(dtype, shape=(3, 4, 5)):
    """Numbers that every one of the types holds."""
    return (torch.arange(torch.Size(shape).numel()) % 100).to(dtype).reshape(shape)


def raw(tensor):
    """The elements, row-major, as bytes."""
    dense = tensor.contiguous()
    return ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size())


def windows(tensor):
    return {
        "whole": tensor,
        "transposed": tensor.permute(2, 0, 1),
        "every second": tensor[:, 1::2, ::3],
        "a row": tensor[1, 2],
        "expanded": tensor[0].expand(6, 4, 5),
        "expanded inside": tensor[:, :1].expand(3, 7, 5),
        "nothing": tensor[:, 2:2],
        "a number": tensor[1, 1, 1],
    }


class In(bc.Case):
    def test_windows_of_each_type_come_in_as_they_are(self):
        for name, dtype in DTYPES.items():
            for kind, window in windows(sample(dtype)).items():
                with self.subTest(dtype=name, window=kind):
                    x, deletions = self.berth.take(torch.utils.dlpack.to_dlpack(window))
                    self.assertEqual(self.berth.dtype_name(x), name)
                    self.assertEqual(self.berth.shape(x), tuple(window.shape))
                    self.assertEqual(self.berth.read(x), raw(window))
                    y = self.berth.result(self.berth.copy(self.berth.context, x))
                    self.assertEqual(deletions.count, 0)
                    self.berth.release(x)
                    self.assertEqual(deletions.count, 1)
                    self.assertEqual(self.berth.read(y), raw(window))
                    self.berth.release(y)

    def test_bfloat16_means_the_same_on_both_sides(self):
        tensor = torch.tensor([1.0, -0.5, 3.140625, 1e30], dtype=torch.bfloat16)
        x, _ = self.berth.take(torch.utils.dlpack.to_dlpack(tensor))
        y = self.berth.result(self.berth.cast(self.berth.context, x, self.berth.dtypes[bc.F32]))
        self.assertEqual(self.berth.read(y), raw(tensor.float()))
        self.berth.release(x)
        self.berth.release(y)

    def test_a_write_on_either_side_is_seen_on_the_other(self):
        tensor = sample(torch.int32, (6,))
        x, _ = self.berth.take(torch.utils.dlpack.to_dlpack(tensor))
        self.keep(x)
        tensor[2] = -7
        self.assertEqual(self.berth.read(x), raw(tensor))
        self.berth.write(x, raw(torch.arange(6, dtype=torch.int32)))
        self.assertTrue(torch.equal(tensor, torch.arange(6, dtype=torch.int32)))

    def test_a_refused_tensor_stays_its_owners(self):
        for dtype, part in ((torch.float64, "float64"), (torch.complex64, "complex64")):
            capsule = torch.utils.dlpack.to_dlpack(torch.ones(3, dtype=dtype))
            deletions = bc.Deletions(bc.managed_of(capsule))
            with self.assertRaisesRegex(RuntimeError, part):
                self.berth.result(
                    self.berth.tensor_from_dlpack(
                        self.berth.context, bc.managed_of(capsule), False
                    )
                )
            self.assertEqual(deletions.count, 0)
            del capsule
            self.assertEqual(deletions.count, 1)


class Out(bc.Case):
    def check(self, tensor, expected):
        lent = bc.Lent(self.berth, tensor)
        got = torch.from_dlpack(lent)
        self.assertEqual(got.dtype, expected.dtype)
        self.assertEqual(got.stride(), expected.stride())
        self.assertTrue(torch.equal(got, expected))
        self.assertEqual(lent.deletions.count, 0)
        del got
        gc.collect()
        self.assertEqual(lent.deletions.count, 1)

    def test_tensors_of_each_type_go_out_with_their_strides(self):
        for name, dtype in DTYPES.items():
            with self.subTest(dtype=name):
                tensor = sample(dtype)
                context = self.berth.context
                x = self.keep(self.berth.make(name, tuple(tensor.shape), raw(tensor)))
                self.check(x, tensor)
                y = self.keep(self.berth.result(self.berth.transpose(context, x, 0, 2)))
                self.check(y, tensor.transpose(0, 2))
                z = self.keep(self.berth.result(self.berth.slice(context, y, 1, 0, 4, 3)))
                self.check(z, tensor.transpose(0, 2)[:, ::3])

    def test_memory_is_shared_both_ways(self):
        start = sample(torch.float32, (4,))
        x = self.keep(self.berth.make(bc.F32, (4,), raw(start)))
        got = torch.from_dlpack(bc.Lent(self.berth, x))
        got.mul_(2)
        self.assertEqual(self.berth.read(x), raw(start * 2))
        self.berth.write(x, raw(start + 1))
        self.assertTrue(torch.equal(got, start + 1))

    def test_ops_leave_a_lent_tensor_alone(self):
        start = sample(torch.float32, (4,))
        x = self.berth.make(bc.F32, (4,), raw(start))
        got = torch.from_dlpack(bc.Lent(self.berth, x))
        y = self.berth.result(self.berth.neg(self.berth.context, x | 1))  # moved
        self.assertTrue(torch.equal(got, start))
        self.assertEqual(self.berth.read(y), raw(-start))
        self.berth.release(y)

    def test_booleans_go_out_as_u8(self):
        x = self.keep(self.berth.make(bc.BOOL, (3,), bytes([1, 0, 1])))
        self.check(x, torch.tensor([1, 0, 1], dtype=torch.uint8))

    def test_what_came_in_goes_out_again_as_the_same_memory(self):
        tensor = sample(torch.float32, (3, 4)).t()
        x, deletions = self.berth.take(torch.utils.dlpack.to_dlpack(tensor))
        again = torch.from_dlpack(bc.Lent(self.berth, x))
        self.berth.release(x)
        self.assertEqual(again.data_ptr(), tensor.data_ptr())
        self.assertEqual(again.stride(), tensor.stride())
        self.assertEqual(deletions.count, 0)
        del again
        gc.collect()
        self.assertEqual(deletions.count, 1)


if __name__ == "__main__":
    bc.main()
