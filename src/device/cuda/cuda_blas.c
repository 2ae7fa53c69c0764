// SPDX-License-Identifier: Apache-2.0
// The library's matrices are column-major, so a row-major product is out^T = b^T a^T: b comes
// first, and neither is copied. What was made for a product (descriptors, the algorithm that the
// library suggests) is kept in a table of bounded size, under all that it depends on.
#include "device/cuda/cuda_blas.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/cuda/cuda_blas_api.h"
#include "device/cuda/cuda_driver.h"

#define SETS 64
#define WAYS 4
#define WORKSPACE_ALIGNMENT 256u

typedef struct blas_functions {
#define BLAS_FIELD(field, symbol, parameters) blas_status(*field) parameters;
    BLAS_FUNCTION_MAP(BLAS_FIELD)
#undef BLAS_FIELD
} blas_functions;

/// A column-major matrix, and whether the product takes its transpose.
typedef struct blas_matrix {
    int64_t rows;
    int64_t columns;
    int64_t stride; ///< from column to column
    int64_t batch;  ///< from batch to batch
    uint32_t alignment;
    int32_t is_transposed;
} blas_matrix;

/// All that a plan depends on; compared as bytes, so there are none between the fields.
typedef struct blas_key {
    blas_matrix a; ///< the caller's b
    blas_matrix b; ///< the caller's a
    blas_matrix d;
    uint64_t workspace_bytes;
    int32_t type;
    int32_t batches;
    uint32_t bias_alignment; ///< 0: no bias
    uint32_t padding;
} blas_key;

_Static_assert(sizeof(blas_matrix) == 40 && sizeof(blas_key) == 144, "no bytes between fields");

typedef struct blas_plan {
    blas_key key;
    uint64_t last_use; ///< 0: there is no plan here
    bool is_usable;    ///< false: the library does not take such products
    blas_operation operation;
    blas_layout a;
    blas_layout b;
    blas_layout d;
    blas_algorithm algorithm;
} blas_plan;

struct berth_cuda_blas {
    const berth_host* host; ///< borrowed
    char* name;             ///< owned; NULL: any version
    berth_mutex lock;       ///< guards all below
    bool has_lock;
    bool is_tried; ///< to load the library
    bool is_there;
    blas_functions functions;
    blas_handle handle;
    uint64_t uses;
    blas_plan plans[SETS][WAYS];
};

// --- The library ---------------------------------------------------------------------------------

static bool find_functions(void* library, blas_functions* functions) {
#define LOOK_UP(field, symbol, parameters)                                                         \
    if (!berth_cuda_look_up(library, #symbol, &functions->field)) return false;
    BLAS_FUNCTION_MAP(LOOK_UP)
#undef LOOK_UP
    return true;
}

/// It stays loaded, as the driver does.
static bool load(berth_cuda_blas* blas, const char* name) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return false;
    if (find_functions(library, &blas->functions) && blas->functions.create(&blas->handle) == 0)
        return true;
    (void)dlclose(library);
    return false;
}

/// True if the library is there; looked for once.
static bool open_library(berth_cuda_blas* blas) {
    static const char* const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    if (blas->is_tried) return blas->is_there;
    blas->is_tried = true;
    if (blas->name != NULL) {
        blas->is_there = load(blas, blas->name);
    } else {
        for (size_t i = 0; i < sizeof names / sizeof *names && !blas->is_there; ++i)
            blas->is_there = load(blas, names[i]);
    }
    if (!blas->is_there)
        berth_log_once(BERTH_LOG_WARN,
                       "cuBLASLt (%s) cannot be used: products take Berth's own kernels",
                       blas->name != NULL ? blas->name : "libcublasLt.so.13 or .12");
    return blas->is_there;
}

berth_status berth_cuda_blas_create(const berth_host* host,
                                    const char* library,
                                    berth_cuda_blas** out_blas) {
    *out_blas = NULL;
    berth_cuda_blas* blas = berth_host_calloc(host, 1, sizeof *blas);
    if (blas == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for matrix products");
    blas->host = host;
    berth_status status = berth_mutex_init(&blas->lock);
    blas->has_lock = status == BERTH_OK;
    if (status == BERTH_OK && library != NULL) {
        blas->name = berth_host_strdup(host, library);
        if (blas->name == NULL)
            status = berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a library's name");
    }
    if (status != BERTH_OK) {
        berth_cuda_blas_destroy(blas, false);
        return status;
    }
    *out_blas = blas;
    return BERTH_OK;
}

// --- Plans ---------------------------------------------------------------------------------------

static void plan_clear(const berth_cuda_blas* blas, blas_plan* plan) {
    if (plan->a != NULL) (void)blas->functions.layout_destroy(plan->a);
    if (plan->b != NULL) (void)blas->functions.layout_destroy(plan->b);
    if (plan->d != NULL) (void)blas->functions.layout_destroy(plan->d);
    if (plan->operation != NULL) (void)blas->functions.operation_destroy(plan->operation);
    *plan = (blas_plan){0};
}

void berth_cuda_blas_destroy(berth_cuda_blas* blas, bool has_context) {
    if (blas == NULL) return;
    if (has_context && blas->is_there) {
        for (size_t set = 0; set < SETS; ++set)
            for (size_t way = 0; way < WAYS; ++way)
                plan_clear(blas, &blas->plans[set][way]);
        (void)blas->functions.destroy(blas->handle);
    }
    if (blas->has_lock) berth_mutex_fini(&blas->lock);
    berth_host_free(blas->host, blas->name);
    berth_host_free(blas->host, blas);
}

static bool make_layout(const blas_functions* blas,
                        const blas_key* key,
                        const blas_matrix* matrix,
                        blas_layout* out_layout) {
    if (blas->layout_create(out_layout,
                            key->type,
                            (uint64_t)matrix->rows,
                            (uint64_t)matrix->columns,
                            matrix->stride) != 0)
        return false;
    if (key->batches == 1) return true;
    return blas->layout_set(
               *out_layout, BLAS_LAYOUT_BATCH_COUNT, &key->batches, sizeof key->batches) == 0 &&
           blas->layout_set(
               *out_layout, BLAS_LAYOUT_BATCH_STRIDE, &matrix->batch, sizeof matrix->batch) == 0;
}

static bool set_operation(const blas_functions* blas,
                          blas_operation operation,
                          int attribute,
                          int32_t value) {
    return blas->operation_set(operation, attribute, &value, sizeof value) == 0;
}

static bool make_operation(const blas_functions* blas,
                           const blas_key* key,
                           blas_operation* out_operation) {
    if (blas->operation_create(out_operation, BLAS_COMPUTE_F32, BLAS_TYPE_F32) != 0) return false;
    blas_operation made = *out_operation;
    if (!set_operation(blas, made, BLAS_OPERATION_TRANSPOSE_A, key->a.is_transposed) ||
        !set_operation(blas, made, BLAS_OPERATION_TRANSPOSE_B, key->b.is_transposed))
        return false;
    if (key->bias_alignment == 0) return true;
    // The library's choice depends on the address's alignment, not on what is there.
    const uintptr_t address = key->bias_alignment;
    return set_operation(blas, made, BLAS_OPERATION_EPILOGUE, BLAS_EPILOGUE_BIAS) &&
           set_operation(blas, made, BLAS_OPERATION_BIAS_TYPE, BLAS_TYPE_F32) &&
           blas->operation_set(made, BLAS_OPERATION_BIAS, &address, sizeof address) == 0;
}

static bool set_preferences(const blas_functions* blas,
                            const blas_key* key,
                            blas_preference preference) {
    const struct {
        int attribute;
        uint32_t bytes;
    } alignments[] = {{BLAS_PREFERENCE_ALIGNMENT_A, key->a.alignment},
                      {BLAS_PREFERENCE_ALIGNMENT_B, key->b.alignment},
                      {BLAS_PREFERENCE_ALIGNMENT_C, key->d.alignment},
                      {BLAS_PREFERENCE_ALIGNMENT_D, key->d.alignment}};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; ++i)
        if (blas->preference_set(preference,
                                 alignments[i].attribute,
                                 &alignments[i].bytes,
                                 sizeof alignments[i].bytes) != 0)
            return false;
    return blas->preference_set(preference,
                                BLAS_PREFERENCE_WORKSPACE,
                                &key->workspace_bytes,
                                sizeof key->workspace_bytes) == 0;
}

/// Asks the library how it would compute the plan's product.
static bool find_algorithm(const berth_cuda_blas* blas, blas_plan* plan) {
    const blas_functions* functions = &blas->functions;
    blas_preference preference = NULL;
    if (functions->preference_create(&preference) != 0) return false;
    blas_suggestion best = {.state = 1};
    int count = 0;
    const bool has_any = set_preferences(functions, &plan->key, preference) &&
                         functions->suggest(blas->handle,
                                            plan->operation,
                                            plan->a,
                                            plan->b,
                                            plan->d,
                                            plan->d,
                                            preference,
                                            1,
                                            &best,
                                            &count) == 0 &&
                         count > 0 && best.state == 0;
    (void)functions->preference_destroy(preference);
    if (has_any) plan->algorithm = best.algorithm;
    return has_any;
}

static void plan_make(const berth_cuda_blas* blas, const blas_key* key, blas_plan* plan) {
    plan_clear(blas, plan);
    plan->key = *key;
    plan->is_usable = make_operation(&blas->functions, key, &plan->operation) &&
                      make_layout(&blas->functions, key, &key->a, &plan->a) &&
                      make_layout(&blas->functions, key, &key->b, &plan->b) &&
                      make_layout(&blas->functions, key, &key->d, &plan->d) &&
                      find_algorithm(blas, plan);
}

static size_t set_of(const blas_key* key) {
    uint64_t words[sizeof *key / sizeof(uint64_t)];
    memcpy(words, key, sizeof words);
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ (hash >> 29);
    return (size_t)(hash >> 32) % SETS;
}

/// The plan of `key`, made in the place of the one whose last use is longest ago.
static blas_plan* find_plan(berth_cuda_blas* blas, const blas_key* key) {
    blas_plan* const set = blas->plans[set_of(key)];
    blas_plan* oldest = &set[0];
    blas->uses += 1;
    for (size_t way = 0; way < WAYS; ++way) {
        if (set[way].last_use != 0 && memcmp(&set[way].key, key, sizeof *key) == 0) {
            set[way].last_use = blas->uses;
            return &set[way];
        }
        if (set[way].last_use < oldest->last_use) oldest = &set[way];
    }
    plan_make(blas, key, oldest);
    oldest->last_use = blas->uses;
    return oldest;
}

// --- Products ------------------------------------------------------------------------------------

static bool is_int(int64_t value) { return value >= 0 && value <= INT32_MAX; }

/// Describes a matrix [rows, columns] with any strides; false if the library has no words for it.
static bool describe(int64_t rows, int64_t columns, int64_t row, int64_t column, blas_matrix* out) {
    if ((column == 1 || columns == 1) && (rows == 1 || row >= columns)) {
        const int64_t stride = rows == 1 ? columns : row;
        *out =
            (blas_matrix){.rows = columns, .columns = rows, .stride = stride, .is_transposed = 1};
    } else if ((row == 1 || rows == 1) && (columns == 1 || column >= rows)) {
        const int64_t stride = columns == 1 ? rows : column;
        *out = (blas_matrix){.rows = rows, .columns = columns, .stride = stride};
    } else {
        return false;
    }
    return is_int(rows) && is_int(columns) && is_int(out->stride);
}

/// The largest power of two, up to 256, that divides all numbers whose bits are together `bits`.
static uint32_t alignment_of(uint64_t bits) {
    bits |= 256u;
    return (uint32_t)(bits & (~bits + 1));
}

/// Says from batch to batch, and to what all of it is aligned.
static void place(blas_matrix* matrix, const void* data, int64_t batch, int64_t value_bytes) {
    matrix->batch = batch;
    matrix->alignment = alignment_of((uint64_t)(uintptr_t)data | (uint64_t)(batch * value_bytes) |
                                     (uint64_t)(matrix->stride * value_bytes));
}

static bool make_key(const berth_cuda_library_product* p, uint64_t workspace, blas_key* key) {
    *key = (blas_key){
        .workspace_bytes = workspace,
        .type = p->dtype == BERTH_F32   ? BLAS_TYPE_F32
                : p->dtype == BERTH_F16 ? BLAS_TYPE_F16
                                        : BLAS_TYPE_BF16,
        .batches = (int32_t)p->batches,
        .bias_alignment = p->bias == NULL ? 0 : alignment_of((uint64_t)(uintptr_t)p->bias),
    };
    if (p->rows < 1 || p->columns < 1 || p->depth < 1 || !is_int(p->batches)) return false;
    // columns become rows
    if (!describe(p->columns, p->depth, p->b_column, p->b_step, &key->a) ||
        !describe(p->depth, p->rows, p->a_step, p->a_row, &key->b) || !is_int(p->rows))
        return false;
    key->d = (blas_matrix){.rows = p->columns, .columns = p->rows, .stride = p->columns};
    const int64_t bytes = p->dtype == BERTH_F32 ? 4 : 2;
    place(&key->a, p->b, p->b_batch, bytes);
    place(&key->b, p->a, p->a_batch, bytes);
    place(&key->d, p->out, p->rows * p->columns, bytes);
    return true;
}

static bool multiply(berth_cuda_blas* blas,
                     cu_stream stream,
                     const berth_cuda_library_product* p,
                     const blas_key* key,
                     void* workspace) {
    if (!open_library(blas)) return false;
    blas_plan* plan = find_plan(blas, key);
    if (!plan->is_usable) return false;
    const blas_functions* functions = &blas->functions;
    if (p->bias != NULL && functions->operation_set(
                               plan->operation, BLAS_OPERATION_BIAS, &p->bias, sizeof p->bias) != 0)
        return false;
    const float one = 1.0f, zero = 0.0f;
    return functions->multiply(blas->handle,
                               plan->operation,
                               &one,
                               p->b,
                               plan->a,
                               p->a,
                               plan->b,
                               &zero,
                               p->out,
                               plan->d,
                               p->out,
                               plan->d,
                               &plan->algorithm,
                               workspace,
                               (size_t)key->workspace_bytes,
                               stream) == 0;
}

bool berth_cuda_blas_multiply(berth_cuda_blas* blas,
                              cu_stream stream,
                              const berth_cuda_library_product* product,
                              void* workspace,
                              uint64_t workspace_bytes) {
    const uintptr_t skipped =
        (WORKSPACE_ALIGNMENT - (uintptr_t)workspace % WORKSPACE_ALIGNMENT) % WORKSPACE_ALIGNMENT;
    const bool has_room = workspace_bytes > skipped;
    blas_key key;
    if (!make_key(product, has_room ? workspace_bytes - skipped : 0, &key)) return false;
    berth_mutex_lock(&blas->lock);
    const bool is_done = multiply(
        blas, stream, product, &key, has_room ? (unsigned char*)workspace + skipped : NULL);
    berth_mutex_unlock(&blas->lock);
    return is_done;
}
