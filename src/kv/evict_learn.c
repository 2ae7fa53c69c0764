// SPDX-License-Identifier: Apache-2.0
// What is learned at the end of an epoch: chances to be found by age, factors of classes, and the
// age at which the order of last uses would evict.
#include "kv/evict_reuse.h"

/// Counts are multiplied by it in each epoch.
#define FADING 0.995
/// Requests that speak for what is believed before.
#define BELIEF 8.0

/// Chances to be found within an epoch, by age.
typedef struct chances {
    double at[BERTH_EVICT_AGES];
} chances;

static double alive_now(const berth_evict_reuse* state, uint32_t class, uint32_t age) {
    if (age > state->epoch) return 0;
    const uint32_t alive = state->alive[class][(state->epoch - age) % BERTH_EVICT_AGES];
    return (double)alive + (age == BERTH_EVICT_AGES - 1 ? (double)state->old[class] : 0);
}

static void fade(berth_evict_reuse* state) {
    state->found_blocks *= FADING;
    state->finding_prompts *= FADING;
    for (uint32_t u = 0; u < BERTH_EVICT_USES; ++u) {
        for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
            state->found_at[u][a] *= FADING;
            state->alive_at[u][a] *= FADING;
        }
    }
    for (uint32_t c = 0; c < BERTH_EVICT_CLASSES; ++c) {
        state->found[c] *= FADING;
        state->expected[c] *= FADING;
    }
    for (uint32_t t = 0; t < BERTH_EVICT_TENANTS; ++t) {
        state->tenants[t].found *= FADING;
        state->tenants[t].let_go *= FADING;
    }
    state->all_tenants.found *= FADING;
    state->all_tenants.let_go *= FADING;
}

/// Adds the epoch to what was seen, and finds the age at which as many blocks have been used as
/// there are: the order of last uses keeps what is younger.
static void count_alive(berth_evict_reuse* state, uint64_t ticks, double blocks) {
    double younger = 0;
    state->lru_age = UINT64_MAX;
    for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
        double used = 0;
        for (uint32_t c = 0; c < BERTH_EVICT_CLASSES; ++c) {
            const double alive = alive_now(state, c, a);
            state->alive_at[c / BERTH_EVICT_KINDS][a] += alive;
            used += alive;
        }
        if (state->lru_age == UINT64_MAX && used > 0 && younger + used > blocks &&
            a < BERTH_EVICT_AGES - 1)
            state->lru_age = (uint64_t)((a + (blocks - younger) / used) * (double)ticks);
        younger += used;
    }
}

/// Makes chances fall with age: neighbours that rise become their average, weighted by `weights`.
static void make_fall(chances* of, const double* weights) {
    double means[BERTH_EVICT_AGES], sums[BERTH_EVICT_AGES];
    uint32_t lengths[BERTH_EVICT_AGES], runs = 0;
    for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
        means[runs] = of->at[a];
        sums[runs] = weights[a] + 1;
        lengths[runs++] = 1;
        for (; runs > 1 && means[runs - 2] < means[runs - 1]; --runs) {
            const double sum = sums[runs - 2] + sums[runs - 1];
            means[runs - 2] =
                (means[runs - 2] * sums[runs - 2] + means[runs - 1] * sums[runs - 1]) / sum;
            sums[runs - 2] = sum;
            lengths[runs - 2] += lengths[runs - 1];
        }
    }
    uint32_t age = 0;
    for (uint32_t r = 0; r < runs; ++r)
        for (uint32_t i = 0; i < lengths[r]; ++i)
            of->at[age++] = means[r];
}

/// Chances from what was found of what was alive, over ages a quarter older and younger. `before`
/// is what is believed before, with the weight of `belief` blocks found; NULL: that chances fall.
static void estimate(const double* found_at,
                     const double* alive_at,
                     const chances* before,
                     double belief,
                     chances* out) {
    double found[BERTH_EVICT_AGES + 1] = {0}, alive[BERTH_EVICT_AGES + 1] = {0};
    for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
        found[a + 1] = found[a] + found_at[a];
        alive[a + 1] = alive[a] + alive_at[a] + found_at[a];
    }
    const double average = (found[BERTH_EVICT_AGES] + 0.05) / (alive[BERTH_EVICT_AGES] + 50);
    for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
        const uint32_t from = a - a / 4;
        const uint32_t end = a + a / 4 + 1 < BERTH_EVICT_AGES ? a + a / 4 + 1 : BERTH_EVICT_AGES;
        const double believed =
            before == NULL ? average / (1 + (double)a / BERTH_EVICT_TURN) : before->at[a];
        out->at[a] =
            (found[end] - found[from] + belief) / (alive[end] - alive[from] + belief / believed);
    }
    make_fall(out, alive_at);
}

static void estimate_by_uses(const berth_evict_reuse* state, double belief, chances* by_uses) {
    double found_at[BERTH_EVICT_AGES] = {0}, alive_at[BERTH_EVICT_AGES] = {0};
    for (uint32_t u = 0; u < BERTH_EVICT_USES; ++u) {
        for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
            found_at[a] += state->found_at[u][a];
            alive_at[a] += state->alive_at[u][a];
        }
    }
    chances all;
    estimate(found_at, alive_at, NULL, belief, &all);
    for (uint32_t u = 0; u < BERTH_EVICT_USES; ++u)
        estimate(state->found_at[u], state->alive_at[u], &all, belief, &by_uses[u]);
}

/// The chance to be found within as many uses as there are blocks, times the factor of the class.
static void value_class(berth_evict_reuse* state,
                        uint32_t class,
                        const chances* of,
                        double belief) {
    for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a)
        state->expected[class] += alive_now(state, class, a) * of->at[a];
    const double factor = (state->found[class] + belief) / (state->expected[class] + belief);
    double soon = 0;
    for (uint32_t a = 0; a < BERTH_EVICT_TURN; ++a)
        soon += of->at[a];
    for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a) {
        state->value[class][a] = (float)(factor * soon);
        const uint32_t next = a + BERTH_EVICT_TURN;
        soon += of->at[next < BERTH_EVICT_AGES ? next : BERTH_EVICT_AGES - 1] - of->at[a];
    }
}

void berth_evict_learn(berth_evict_reuse* state, uint64_t ticks, double blocks) {
    fade(state);
    count_alive(state, ticks, blocks);
    const double in_prompt =
        state->finding_prompts > 0 ? state->found_blocks / state->finding_prompts : 1;
    const double belief = BELIEF * (in_prompt > 1 ? in_prompt : 1);
    chances by_uses[BERTH_EVICT_USES];
    estimate_by_uses(state, belief, by_uses);
    for (uint32_t c = 0; c < BERTH_EVICT_CLASSES; ++c)
        value_class(state, c, &by_uses[c / BERTH_EVICT_KINDS], belief);
    ++state->epoch;
    const uint32_t slot = state->epoch % BERTH_EVICT_AGES; // of the epoch that is too old now
    for (uint32_t c = 0; c < BERTH_EVICT_CLASSES; ++c) {
        state->old[c] += state->alive[c][slot];
        state->alive[c][slot] = 0;
    }
}
