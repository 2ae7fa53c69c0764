# SPDX-License-Identifier: Apache-2.0
# The executor, the KV cache and models on the CUDA device over the stand-in for the driver. Tests
# that were written for the simulated device run once more, as cuda/on_NAME, on this one in its
# place: those that neither order its faults nor look at its memory.
set(berth_on_cuda
    dispatch
    keep
    kv_batch
    kv_memory
    kv_sequence
    leaks
    lifetimes
    modes
    ops_binary
    ops_create
    ops_index
    ops_model
    ops_paged_attention
    ops_reduce
    ops_sort
    ops_unary
    paths
    sharing
    tensor_info
    view_chains
    view_parts
    views)
foreach(name IN LISTS berth_on_cuda)
  add_dependencies(test_${name} berth_cuda_standin berth_cuda_tested)
  add_test(NAME cuda/on_${name} COMMAND test_${name})
  berth_register_test(cuda/on_${name} unit)
  set_property(
    TEST cuda/on_${name}
    APPEND
    PROPERTY ENVIRONMENT "EXEC_KIT_DEVICE=cuda" "STANDIN_STRICT=1"
             "BERTH_CUDA_MODULE=$<TARGET_FILE:berth_cuda_tested>"
             "BERTH_CUDA_DRIVER=$<TARGET_FILE:berth_cuda_standin>")
endforeach()
