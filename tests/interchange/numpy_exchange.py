# SPDX-License-Identifier: Apache-2.0
"""NumPy's arrays in and out by DLPack: the same elements, the same memory, deleted once."""

import gc
import threading

import berth_ctypes as bc

try:
    import numpy as np
except ImportError as error:
    bc.skip(f"NumPy is not there ({error})")

DTYPES = {
    bc.F32: np.float32,
    bc.F16: np.float16,
    bc.I8: np.int8,
    bc.I32: np.int32,
    bc.I64: np.int64,
    bc.U8: np.uint8,
}


def sample(dtype, shape=(3, 4, 5)):
    """Numbers that every one of the types holds."""
    return (np.arange(np.prod(shape)) % 100).astype(dtype).reshape(shape)


def windows(array):
    """Writable windows on one array with all kinds of strides, by name."""
    repeated = np.lib.stride_tricks.as_strided(
        array, (2,) + array.shape, (0,) + array.strides
    )
    return {
        "whole": array,
        "transposed": array.transpose(2, 0, 1),
        "backward": array[::-1, :, ::-1],
        "every second": array[:, 1::2, ::3],
        "a row": array[1, 2],
        "one element": array[2:, 3:, 4:],
        "nothing": array[:, 2:2],
        "repeated": repeated,
        "a number": array[1, 1, 1:2].reshape(()),
    }


class In(bc.Case):
    def test_windows_of_each_type_come_in_as_they_are(self):
        for name, dtype in DTYPES.items():
            for kind, window in windows(sample(dtype)).items():
                with self.subTest(dtype=name, window=kind):
                    x, deletions = self.berth.take(window.__dlpack__())
                    self.assertEqual(self.berth.dtype_name(x), name)
                    self.assertEqual(self.berth.shape(x), window.shape)
                    self.assertEqual(self.berth.read(x), window.tobytes())
                    self.assertEqual(deletions.count, 0)
                    self.berth.release(x)
                    self.assertEqual(deletions.count, 1)

    def test_ops_compute_with_them(self):
        for kind, window in windows(sample(np.float32)).items():
            with self.subTest(window=kind):
                x, _ = self.berth.take(window.__dlpack__())
                y = self.berth.result(self.berth.neg(self.berth.context, x))
                self.assertEqual(self.berth.read(y), (-window).tobytes())
                self.berth.release(x)
                self.berth.release(y)

    def test_a_write_on_either_side_is_seen_on_the_other(self):
        array = sample(np.int32, (6,))
        x, _ = self.berth.take(array.__dlpack__())
        self.keep(x)
        array[2] = -7
        self.assertEqual(self.berth.read(x), array.tobytes())
        self.berth.write(x, np.arange(6, dtype=np.int32).tobytes())
        np.testing.assert_array_equal(array, np.arange(6))

    def test_an_array_lives_as_long_as_its_tensor(self):
        array = sample(np.float32)
        expected = array.tobytes()
        x, deletions = self.berth.take(array.__dlpack__())
        view = self.berth.result(self.berth.transpose(self.berth.context, x, 0, 2))
        self.berth.release(x)
        del array
        gc.collect()
        back = self.berth.result(self.berth.transpose(self.berth.context, view, 0, 2))
        self.assertEqual(self.berth.read(back), expected)
        self.berth.release(view)
        self.assertEqual(deletions.count, 0)
        self.berth.release(back)
        self.assertEqual(deletions.count, 1)

    def test_a_refused_array_stays_its_owners(self):
        capsule = sample(np.float64).__dlpack__()
        deletions = bc.Deletions(bc.managed_of(capsule))
        with self.assertRaisesRegex(RuntimeError, "float64"):
            self.berth.result(
                self.berth.tensor_from_dlpack(
                    self.berth.context, bc.managed_of(capsule), False
                )
            )
        self.assertEqual(deletions.count, 0)
        del capsule
        self.assertEqual(deletions.count, 1)

    def test_a_read_only_tensor_is_neither_written_nor_lent(self):
        array = sample(np.float32, (4,))
        x, _ = self.berth.take(array.__dlpack__(), read_only=True)
        self.keep(x)
        with self.assertRaisesRegex(RuntimeError, "read-only"):
            self.berth.write(x, bytes(16))
        with self.assertRaisesRegex(RuntimeError, "read-only"):
            self.berth.lend(x)
        np.testing.assert_array_equal(array, sample(np.float32, (4,)))


class Out(bc.Case):
    def check(self, tensor, expected):
        lent = bc.Lent(self.berth, tensor)
        array = np.from_dlpack(lent)
        self.assertEqual(array.dtype, expected.dtype)
        np.testing.assert_array_equal(array, expected)
        self.assertEqual(lent.deletions.count, 0)
        del array
        gc.collect()
        self.assertEqual(lent.deletions.count, 1)

    def test_tensors_of_each_type_go_out_with_their_strides(self):
        for name, dtype in DTYPES.items():
            with self.subTest(dtype=name):
                array = sample(dtype)
                context = self.berth.context
                x = self.keep(self.berth.make(name, array.shape, array.tobytes()))
                self.check(x, array)
                y = self.keep(self.berth.result(self.berth.transpose(context, x, 0, 2)))
                self.check(y, array.transpose(2, 1, 0))
                z = self.keep(self.berth.result(self.berth.slice(context, y, 1, 0, 4, 3)))
                self.check(z, array.transpose(2, 1, 0)[:, ::3])
                dims = bc.Dims(2, (0, 1))
                flipped = self.keep(self.berth.result(self.berth.flip(context, z, dims)))
                self.check(flipped, array.transpose(2, 1, 0)[::-1, ::3][:, ::-1])

    def test_booleans_go_out_as_u8(self):
        x = self.keep(self.berth.make(bc.BOOL, (3,), bytes([1, 0, 1])))
        self.check(x, np.array([1, 0, 1], dtype=np.uint8))

    def test_nothing_and_a_number_go_out(self):
        self.check(self.keep(self.berth.make(bc.F32, (3, 0), b"")), np.zeros((3, 0), np.float32))
        number = np.array(2.5, dtype=np.float32)
        self.check(self.keep(self.berth.make(bc.F32, (), number.tobytes())), number)

    def test_memory_is_shared(self):
        x = self.keep(self.berth.make(bc.I32, (4,), np.arange(4, dtype=np.int32).tobytes()))
        array = np.from_dlpack(bc.Lent(self.berth, x))
        self.berth.write(x, np.array([9, 8, 7, 6], dtype=np.int32).tobytes())
        np.testing.assert_array_equal(array, [9, 8, 7, 6])
        same = np.from_dlpack(bc.Lent(self.berth, x))
        self.assertTrue(np.shares_memory(array, same))

    def test_an_array_outlives_tensor_context_and_runtime(self):
        berth = bc.Berth(self.path)
        x = berth.make(bc.F32, (5,), np.arange(5, dtype=np.float32).tobytes())
        array = np.from_dlpack(bc.Lent(berth, x))
        berth.release(x)
        berth.close()
        np.testing.assert_array_equal(array, np.arange(5))

    def test_a_capsule_that_nobody_takes_gives_the_tensor_back(self):
        x = self.keep(self.berth.make(bc.U8, (2,), b"ab"))
        lent = bc.Lent(self.berth, x)
        capsule = lent.__dlpack__()
        del capsule
        self.assertEqual(lent.deletions.count, 1)

    def test_an_array_that_went_out_comes_back_as_the_same_memory(self):
        x = self.keep(self.berth.make(bc.F32, (4,), np.arange(4, dtype=np.float32).tobytes()))
        y, deletions = self.berth.take(bc.Lent(self.berth, x).__dlpack__())
        self.berth.write(x, np.full(4, 3, dtype=np.float32).tobytes())
        self.assertEqual(self.berth.read(y), np.full(4, 3, dtype=np.float32).tobytes())
        self.berth.release(y)
        self.assertEqual(deletions.count, 1)

    def test_another_thread_may_drop_arrays_while_ops_run(self):
        arrays, dropped = [], []
        is_over = threading.Event()

        def drop():
            while not is_over.is_set() or arrays:
                if arrays:
                    array, expected = arrays.pop()
                    dropped.append(bool((array == expected).all()))
                    del array

        thread = threading.Thread(target=drop)
        thread.start()
        lents = []
        for i in range(300):
            expected = np.full(100, i, dtype=np.float32)
            x = self.berth.make(bc.F32, (100,), expected.tobytes())
            lents.append(bc.Lent(self.berth, x))
            arrays.append((np.from_dlpack(lents[-1]), expected))
            y = self.berth.result(self.berth.neg(self.berth.context, x))
            self.berth.release(x)
            self.assertEqual(self.berth.read(y), (-expected).tobytes())
            self.berth.release(y)
        is_over.set()
        thread.join()
        self.assertEqual(dropped, [True] * 300)
        self.assertEqual([lent.deletions.count for lent in lents], [1] * 300)


if __name__ == "__main__":
    bc.main()
