// SPDX-License-Identifier: Apache-2.0
// The sizes of all values of one path, learned from its runs. Dimensions that were always equal are
// one class and share one set of forms, so a shape is evaluated by a handful of forms and products.
#ifndef BERTH_PLAN_SIZE_MODEL_H
#define BERTH_PLAN_SIZE_MODEL_H

#include "plan/form_fit.h"
#include "plan/trace.h"

/// Runs whose sizes are kept: the newest, those farthest apart, rather those that refuted a form.
#define BERTH_SIZE_RUNS BERTH_FORM_SAMPLES

typedef struct berth_size_class {
    int64_t values[BERTH_SIZE_RUNS]; ///< by kept run
    berth_form_set forms;
    int64_t largest; ///< over all runs, kept or not
    bool frame;      ///< size of a nested frame: never a form
    bool data;       ///< depends on data: never a form
    bool expected;   ///< ... and the op says so
    bool scratch;
    bool varied; ///< not always the same
    /// Runs larger than others at larger symbols; after some of them `largest` is planned for.
    uint8_t misses;
    uint32_t changes;    ///< runs that changed what is planned for it
    uint8_t failed_fits; ///< in a row, no more than tell the gap between them
    uint64_t fit_at;     ///< no form is looked for before this run, by the model's clock
} berth_size_class;

BERTH_VEC_DEFINE(berth_size_class_vec, berth_size_class);

/// A combination of dtype and dimension classes; values of one kind have one size.
typedef struct berth_size_kind {
    uint32_t classes[BERTH_MAX_RANK];
    uint16_t rank;
    uint16_t dtype;
} berth_size_kind;

BERTH_VEC_DEFINE(berth_size_kind_vec, berth_size_kind);

/// A size that differed between two runs with equal bindings, although nothing says that it may.
typedef struct berth_size_contradiction {
    uint32_t class; ///< UINT32_MAX: none
    int64_t before;
    int64_t now;
} berth_size_contradiction;

typedef struct berth_size_model {
    const berth_host* host;
    uint32_t value_count;
    uint32_t dim_count;
    uint32_t binding_count;
    uint32_t run_count; ///< kept
    int64_t* runs;      ///< [BERTH_SIZE_RUNS][binding_count]
    uint64_t run_age[BERTH_SIZE_RUNS];
    bool telling[BERTH_SIZE_RUNS]; ///< the run refuted some form
    uint64_t clock;
    uint16_t* symbols; ///< [binding_count] bindings that varied between runs of this path
    uint32_t symbol_count;
    uint32_t* class_of; ///< [dim_count]
    uint32_t* kind_of;  ///< [value_count]
    berth_size_class_vec classes;
    berth_size_kind_vec kinds;
    berth_size_contradiction contradiction;
    size_t first_class;   ///< whose turn it is to be fitted first
    int64_t* class_value; ///< scratch, [classes.capacity]
    uint64_t* kind_bytes; ///< scratch, [kinds.capacity]
    uint32_t* scratch;    ///< [dim_count]
    size_t bytes;         ///< host memory, about
} berth_size_model;

/// How much an evaluation promises, weakest first.
typedef enum berth_size_promise {
    BERTH_SIZE_OBSERVED, ///< some size follows no confirmed form
    BERTH_SIZE_BOUND,    ///< hypotheses disagree here, or a form is not monotone, or a frame was
                         ///< constant
    BERTH_SIZE_EXACT,
} berth_size_promise;

typedef struct berth_size_answer {
    berth_size_promise promise;
    bool learn; ///< a run here would tell hypotheses apart
} berth_size_answer;

/// Learns the first run. `values` are [value_count], `dims` [dim_count] as in a trace, `bindings`
/// [binding_count].
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_size_model_init(berth_size_model* self,
                                                   const berth_host* host,
                                                   const berth_trace* trace,
                                                   const int64_t* bindings,
                                                   uint32_t binding_count);
void berth_size_model_fini(berth_size_model* self);

/// Learns a further run of the same path. `*out_changed`: some size may now be planned otherwise,
/// or with another promise.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; the model is as before.
BERTH_NODISCARD berth_status berth_size_model_observe(berth_size_model* self,
                                                      const berth_trace* trace,
                                                      const int64_t* bindings,
                                                      bool* out_changed);

/// Tells a model of few runs what the runs of another process have shown beyond those it observed:
/// that `binding` has varied, in the order in which bindings did.
void berth_size_model_recall_symbol(berth_size_model* self, uint16_t binding);
/// Likewise of dimension `dim`: the largest seen, runs that were surprises, whether data decides.
void berth_size_model_recall_dim(
    berth_size_model* self, uint32_t dim, int64_t largest, uint8_t misses, bool data);

/// What the latest run contradicted. Of a run in which a size changed that was expected to, nothing
/// is said: others may follow it.
berth_size_contradiction berth_size_model_contradiction(const berth_size_model* self);

/// A class whose sizes follow no form although they should, the one that changed plans most often;
/// UINT32_MAX: none. With `any` of all classes.
uint32_t berth_size_model_find_restless(const berth_size_model* self, bool any);

/// True if every binding that never varied on this path has the value it always had.
bool berth_size_model_applies(const berth_size_model* self, const int64_t* bindings);

/// True if `binding` has varied between runs of this path.
bool berth_size_model_varies(const berth_size_model* self, uint32_t binding);

/// Writes the largest bytes of each value for bindings lo < s <= hi, aligned; UINT64_MAX where
/// that does not fit. Sizes without a form are the largest seen up to `corner` >= hi, the upper end
/// of the bucket.
/// Threads: one at a time (the model's scratch).
berth_size_answer berth_size_model_evaluate(berth_size_model* self,
                                            const int64_t* lo,
                                            const int64_t* hi,
                                            const int64_t* corner,
                                            uint64_t* out_bytes);

#endif // BERTH_PLAN_SIZE_MODEL_H
