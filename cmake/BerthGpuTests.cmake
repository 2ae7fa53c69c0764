# SPDX-License-Identifier: Apache-2.0
# What runs on a GPU: tests/gpu/test_NAME.c, which skip where there is none, and the programs of
# the bundle that ./dev gpu-bundle makes.
set(berth_gpu_dir "${berth_tests_dir}/gpu")

# The calls of every op that bench-ops measures are compared too.
set(berth_op_cases "${berth_bench_dir}/ops/op_cases.c" "${berth_bench_dir}/ops/op_data.c")
target_sources(test_gpu_ops PRIVATE "${berth_gpu_dir}/gpu_shadow.c" "${berth_gpu_dir}/gpu_tolerance.c"
                                    ${berth_op_cases})
target_include_directories(test_gpu_ops PRIVATE "${berth_bench_dir}")
set_tests_properties(gpu/gpu_ops gpu/gpu_programs PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)
# The comparison itself, with a device that computes as the CPU does.
add_test(NAME gpu/gpu_ops_elsewhere COMMAND test_gpu_ops --device hidden --programs 3 --sizes 1024)
berth_register_test(gpu/gpu_ops_elsewhere unit)

berth_add_program(gpu-tokens bin "${berth_gpu_dir}/gpu_tokens.c")
target_include_directories(gpu-tokens PRIVATE "${berth_tests_dir}")
