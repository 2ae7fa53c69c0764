// SPDX-License-Identifier: Apache-2.0
// The simulated device's inside. Every entry takes the device's lock; functions declared here
// expect it to be held.
#ifndef BERTH_DEVICE_SIM_INTERNAL_H
#define BERTH_DEVICE_SIM_INTERNAL_H

#include "base/thread.h"
#include "base/vec.h"
#include "device/sim/sim_device.h"

typedef enum sim_work_kind {
    SIM_WORK_LAUNCH,
    SIM_WORK_COPY,
    SIM_WORK_MARK, ///< a ticket is done when it is reached
    SIM_WORK_WAIT, ///< for a ticket of another stream
} sim_work_kind;

typedef struct sim_stream sim_stream;

/// One entry of a queue.
typedef struct sim_work {
    sim_work_kind kind;
    berth_kernel kernel;
    berth_op_call* call; ///< owned; its parameters stand behind it
    void* target;
    const void* source;
    uint64_t size_bytes;
    sim_stream* other; ///< of a wait: borrowed, NULL once it is gone with all its work done
    uint64_t ticket;
} sim_work;

BERTH_VEC_DEFINE(sim_work_list, sim_work);

BERTH_VEC_DEFINE(sim_space_list, berth_space*);

struct sim_stream {
    berth_stream stream;
    sim_stream* next;    ///< in the device's list
    sim_work_list queue; ///< entries before `head` have run
    size_t head;
    uint64_t issued; ///< tickets
    uint64_t done;   ///< tickets
};

typedef struct sim_device {
    berth_device device;
    berth_mutex lock;
    sim_stream* streams;
    uint64_t capacity_bytes;
    uint64_t mapped_bytes;
    uint64_t pinned_bytes;
    bool is_hidden;
    sim_space_list spaces; ///< with is_hidden: all, borrowed
    uint64_t random;       ///< state; 0 means that nothing runs by itself
    uint64_t calls[BERTH_SIM_CALL_COUNT];
    uint64_t fail_in[BERTH_SIM_CALL_COUNT]; ///< calls until one fails, 0: none
    uint64_t fail_any_in;
} sim_device;

static inline sim_device* sim_device_of(berth_device* device) { return (sim_device*)device; }

/// Counts a call of a fallible kind; fails if a fault is due.
BERTH_NODISCARD berth_status berth_sim_begin_call(sim_device* sim, berth_sim_call call);

/// Lets work touch the memory of a hidden device, and ends that. Nothing to do on others.
void berth_sim_open_memory(sim_device* sim);
void berth_sim_close_memory(sim_device* sim);

/// The entries for streams; each takes the lock itself.
BERTH_NODISCARD berth_status berth_sim_stream_create(berth_device* self, berth_stream** out_stream);
void berth_sim_stream_destroy(berth_device* self, berth_stream* stream);
BERTH_NODISCARD berth_status berth_sim_launch(berth_device* self,
                                              berth_stream* stream,
                                              berth_kernel kernel,
                                              const berth_op_call* call,
                                              size_t params_bytes);
BERTH_NODISCARD berth_status berth_sim_copy(berth_device* self,
                                            berth_stream* stream,
                                            void* target,
                                            const void* source,
                                            uint64_t size,
                                            berth_copy_kind kind);
BERTH_NODISCARD berth_status berth_sim_record(berth_device* self,
                                              berth_stream* stream,
                                              uint64_t* out_ticket);
bool berth_sim_query(berth_device* self, berth_stream* stream, uint64_t ticket);
BERTH_NODISCARD berth_status berth_sim_wait(berth_device* self,
                                            berth_stream* stream,
                                            uint64_t ticket);
BERTH_NODISCARD berth_status berth_sim_wait_stream(berth_device* self,
                                                   berth_stream* stream,
                                                   berth_stream* other,
                                                   uint64_t ticket);

#endif // BERTH_DEVICE_SIM_INTERNAL_H
