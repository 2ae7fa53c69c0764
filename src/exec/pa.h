#include "exec/exec_impl.h"
berth_tensor* berth_dispatch_paged_attention(berth_context*, berth_tensor*, berth_tensor*, berth_tensor*, berth_tensor*, berth_tensor*, berth_tensor*, berth_tensor*, float);
