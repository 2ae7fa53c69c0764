// SPDX-License-Identifier: Apache-2.0
// Eviction by reuse: classes of blocks, counting what becomes of them, and choosing.
#include "kv/evict_reuse.h"

#include <math.h>
#include <string.h>

/// Bits of a note that say the class; the others are the epoch's.
#define CLASS_BITS 8
#define EPOCH_MASK (UINT32_MAX >> CLASS_BITS)
/// Least time of an epoch, in ticks of the clock. A use of a block takes two.
#define LEAST_TICKS 128u
/// Blocks that a tenant has let go before it is compared with others.
#define TENANT_BLOCKS 64
/// Requests in which blocks were found again before that decides.
#define LEAST_PROMPTS 16
/// How much more an older block must be worth to stay.
#define MARGIN 1.5f
/// Contests are forgotten by this in an epoch.
#define CONTEST_FADING 0.995
#define SPREAD_FADING 0.99

bool berth_evict_reuse_open(berth_prefix_index* index) {
    berth_evict_reuse* state = berth_host_calloc(index->host, 1, sizeof *state);
    if (state == NULL) return false;
    memset(state->oldest, 0xFF, sizeof state->oldest);
    state->lru_age = UINT64_MAX;
    index->reuse = state;
    return true;
}

// --- Notes ---------------------------------------------------------------------------------------

static uint32_t class_of(uint32_t note) { return note & ((1u << CLASS_BITS) - 1); }

static uint32_t epochs_since(const berth_evict_reuse* state, uint32_t note) {
    return (state->epoch - (note >> CLASS_BITS)) & EPOCH_MASK;
}

static uint32_t age_of(const berth_evict_reuse* state, uint32_t note) {
    const uint32_t age = epochs_since(state, note);
    return age < BERTH_EVICT_AGES ? age : BERTH_EVICT_AGES - 1;
}

static uint32_t* counter_of(berth_evict_reuse* state, uint32_t note) {
    if (epochs_since(state, note) >= BERTH_EVICT_AGES) return &state->old[class_of(note)];
    return &state->alive[class_of(note)][(note >> CLASS_BITS) % BERTH_EVICT_AGES];
}

static void discount(berth_evict_reuse* state, uint32_t note) {
    uint32_t* counter = counter_of(state, note);
    if (*counter > 0) --*counter; // after 2^24 epochs it may have been counted elsewhere
}

// --- Classes -------------------------------------------------------------------------------------

static berth_evict_tenant* tenant_of(berth_evict_reuse* state, uint32_t tenant) {
    return &state->tenants[(tenant * UINT32_C(0x9E3779B1)) >> 26];
}

/// True for a tenant whose blocks are found less than half as often as all are.
static bool is_cold(berth_evict_reuse* state, uint32_t tenant) {
    const berth_evict_tenant* own = tenant_of(state, tenant);
    const berth_evict_tenant* all = &state->all_tenants;
    return own->let_go > TENANT_BLOCKS && own->found * all->let_go * 2 < all->found * own->let_go;
}

/// 0, 1, 2 and 3, 4 to 7, ...; at most `most`.
static uint32_t grade(uint32_t value, uint32_t most) {
    const uint32_t bits = value == 0 ? 0 : 32 - (uint32_t)__builtin_clz(value);
    return bits < most ? bits : most;
}

/// Counts a block that nobody holds in the class that it is of now.
static void count(berth_prefix_index* index, uint32_t block) {
    berth_evict_reuse* state = index->reuse;
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    uint32_t class = grade(node->uses, BERTH_EVICT_USES - 1);
    class = class * 2 + (node->first_child == BERTH_PREFIX_NONE);
    class = class * BERTH_EVICT_DEPTHS + grade(node->depth, BERTH_EVICT_DEPTHS - 1);
    class = class * 2 + is_cold(state, node->tenant);
    node->note = class | state->epoch << CLASS_BITS;
    ++*counter_of(state, node->note);
    tenant_of(state, node->tenant)->let_go += 1;
    state->all_tenants.let_go += 1;
}

// --- Epochs and prompts --------------------------------------------------------------------------

/// Whether what is learned decides, or the order of last uses.
static void judge(berth_evict_reuse* state, uint64_t now, uint32_t capacity) {
    berth_evict_contest* contest = &state->contest;
    contest->gained *= CONTEST_FADING;
    contest->lost *= CONTEST_FADING;
    contest->spread *= SPREAD_FADING;
    if (!contest->is_open) {
        if (now < contest->retry_at || state->finding_prompts < LEAST_PROMPTS) return;
        contest->is_open = true;
        contest->gained = contest->lost = contest->spread = 0;
    } else if (contest->lost > contest->gained + sqrt(contest->spread)) {
        contest->is_open = false;
        contest->pause = contest->pause == 0 ? UINT64_C(4) * capacity : contest->pause;
        contest->retry_at = now + contest->pause;
        if (contest->pause < UINT64_MAX / 4) contest->pause *= 2;
    }
}

static void end_epoch_if_due(berth_prefix_index* index) {
    berth_evict_reuse* state = index->reuse;
    const uint64_t turn = 2 * (uint64_t)index->tables.capacity;
    const uint64_t wanted = turn / BERTH_EVICT_TURN;
    const uint64_t passed = index->clock - state->epoch_began;
    if (passed < LEAST_TICKS || passed < wanted) return;
    state->epoch_began = index->clock;
    const berth_prefix_stats* counted = &index->counted;
    berth_evict_learn(state, passed, (double)(counted->known_blocks - counted->held_blocks));
    judge(state, index->clock, index->tables.capacity);
}

static void asked(berth_prefix_index* index) {
    berth_evict_reuse* state = index->reuse;
    const berth_evict_prompt* last = &state->prompt;
    if (last->found > 0) {
        state->found_blocks += last->found;
        state->finding_prompts += 1;
        const double difference = (double)last->gained - (double)last->lost;
        if (difference > 0) state->contest.gained += difference;
        if (difference < 0) state->contest.lost -= difference;
        state->contest.spread += difference * difference;
    }
    state->prompt = (berth_evict_prompt){0};
}

/// A counted block is used again; it is cached, or was `evicted` too early.
static void count_found(
    berth_prefix_index* index, uint32_t note, uint64_t stamp, uint32_t tenant, bool is_evicted) {
    berth_evict_reuse* state = index->reuse;
    const uint32_t class = class_of(note);
    state->found[class] += 1;
    state->found_at[class / BERTH_EVICT_KINDS][age_of(state, note)] += 1;
    discount(state, note);
    tenant_of(state, tenant)->found += 1;
    state->all_tenants.found += 1;
    const bool is_recent = index->clock - stamp < state->lru_age;
    ++state->prompt.found;
    state->prompt.gained += !is_evicted && !is_recent;
    state->prompt.lost += is_evicted && is_recent;
}

// --- The policy ----------------------------------------------------------------------------------

static void found(berth_prefix_index* index, uint32_t block) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (node->note == BERTH_EVICT_UNSEEN) return;
    count_found(index, node->note, node->stamp, node->tenant, false);
    node->note = BERTH_EVICT_UNSEEN;
    if (!node->is_held) count(index, block);
    end_epoch_if_due(index);
}

static void inserted(berth_prefix_index* index, uint32_t block, const berth_prefix_ghost* ghost) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (ghost != NULL) count_found(index, ghost->note, ghost->stamp, node->tenant, true);
    node->note = BERTH_EVICT_UNSEEN;
}

static void left(berth_prefix_index* index, uint32_t block) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (node->note == BERTH_EVICT_UNSEEN) return;
    discount(index->reuse, node->note);
    node->note = BERTH_EVICT_UNSEEN;
}

static void unheld(berth_prefix_index* index, uint32_t block) {
    count(index, block);
    end_epoch_if_due(index);
}

static void offered(berth_prefix_index* index, uint32_t block) {
    const uint32_t note = berth_prefix_node_of(index, block)->note;
    berth_prefix_class_add(index, &index->reuse->oldest[class_of(note)], block);
}

static void withdrawn(berth_prefix_index* index, uint32_t block) {
    const uint32_t note = berth_prefix_node_of(index, block)->note;
    berth_prefix_class_remove(index, &index->reuse->oldest[class_of(note)], block);
}

static void faded(berth_prefix_index* index, const berth_prefix_ghost* ghost) {
    discount(index->reuse, ghost->note);
}

static float value_of(const berth_prefix_index* index, uint32_t block) {
    const uint32_t note = index->tables.nodes[block].note;
    return index->reuse->value[class_of(note)][age_of(index->reuse, note)];
}

static uint32_t choose(berth_prefix_index* index) {
    const uint32_t oldest = index->tables.heap[0].block;
    if (!index->reuse->contest.is_open) return oldest;
    const float worth = value_of(index, oldest);
    float least = worth;
    uint32_t best = oldest;
    for (uint32_t c = 0; c < BERTH_EVICT_CLASSES; ++c) {
        const uint32_t block = index->reuse->oldest[c];
        if (block == BERTH_PREFIX_NONE) continue;
        const float value = value_of(index, block);
        if (value >= least) continue;
        least = value;
        best = block;
    }
    return worth > least * MARGIN ? best : oldest;
}

const berth_evict_policy berth_evict_by_reuse = {.ghosts_per_block = 4,
                                                 .choose = choose,
                                                 .asked = asked,
                                                 .found = found,
                                                 .inserted = inserted,
                                                 .left = left,
                                                 .unheld = unheld,
                                                 .offered = offered,
                                                 .withdrawn = withdrawn,
                                                 .faded = faded};

// --- The walk ------------------------------------------------------------------------------------

static bool lies_in_its_class(const berth_prefix_index* index, uint32_t block) {
    const berth_prefix_node* nodes = index->tables.nodes;
    const uint32_t class = class_of(nodes[block].note), above = nodes[block].previous_younger;
    if (class >= BERTH_EVICT_CLASSES) return false;
    if (above == BERTH_PREFIX_NONE) return index->reuse->oldest[class] == block;
    if (class_of(nodes[above].note) != class) return false;
    if (nodes[above].first_younger == block) return nodes[above].stamp <= nodes[block].stamp;
    return nodes[above].next_younger == block;
}

bool berth_evict_reuse_is_valid(const berth_prefix_index* index) {
    uint64_t counted = 0, alive = 0;
    for (uint32_t b = 0; b < index->tables.capacity; ++b) {
        const berth_prefix_node* node = &index->tables.nodes[b];
        if (node->tokens == 0) continue;
        if (node->is_held != (node->note == BERTH_EVICT_UNSEEN)) return false;
        counted += !node->is_held;
        if (node->heap_at != BERTH_PREFIX_NONE && !lies_in_its_class(index, b)) return false;
    }
    for (uint32_t g = 0; g < index->tables.ghost_capacity; ++g)
        counted += index->tables.ghosts[g].key != 0;
    for (uint32_t c = 0; c < BERTH_EVICT_CLASSES; ++c) {
        alive += index->reuse->old[c];
        for (uint32_t a = 0; a < BERTH_EVICT_AGES; ++a)
            alive += index->reuse->alive[c][a];
    }
    return counted == alive;
}
