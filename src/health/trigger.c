// SPDX-License-Identifier: Apache-2.0
// Thresholds with hysteresis, and a cool-down that grows while compaction brings nothing.
#include "health/trigger.h"

#include <string.h>

/// Compaction stops being wanted below this part of the threshold.
#define HYSTERESIS 0.7
/// Requests after which the share of those that needed moves counts as new.
#define SHARE_REQUESTS 16u
#define SHARE_WEIGHT 0.3
#define USUAL_WEIGHT 0.05
/// The share that is too much: so much, and so much more than usual.
#define LEAST_SHARE 0.1
#define RISE 1.5
/// The cool-down doubles at most so often.
#define MOST_FRUITLESS 6u

void berth_trigger_init(berth_trigger* trigger, const berth_trigger_config* config) {
    memset(trigger, 0, sizeof *trigger);
    trigger->config = *config;
}

/// Follows the share of requests that needed moves; true if it rises. Needs enough of them.
static bool follow_moves(berth_trigger* trigger, const berth_trigger_input* input) {
    const uint64_t requests = input->requests - trigger->last_requests;
    if (requests < SHARE_REQUESTS) return false;
    const double share = (double)(input->moved - trigger->last_moved) / (double)requests;
    trigger->last_requests = input->requests;
    trigger->last_moved = input->moved;
    trigger->moved_share += SHARE_WEIGHT * (share - trigger->moved_share);
    const bool rises =
        trigger->moved_share >= LEAST_SHARE && trigger->moved_share > RISE * trigger->usual_share;
    trigger->usual_share += USUAL_WEIGHT * (share - trigger->usual_share);
    return rises;
}

static berth_trigger_reason want(berth_trigger* trigger, berth_trigger_reason reason) {
    if (trigger->reason == reason) return reason;
    trigger->reason = reason;
    trigger->counts[reason]++;
    return reason;
}

/// What makes a trigger want compaction that does not yet.
static berth_trigger_reason find_reason(const berth_trigger* trigger,
                                        const berth_trigger_input* input,
                                        bool moves_rise) {
    const double threshold = trigger->config.fi_threshold;
    if (input->now_ns < trigger->ready_ns) return BERTH_TRIGGER_NONE;
    if (input->fi > threshold) return BERTH_TRIGGER_FI;
    if (input->is_expected || input->fi_predicted > threshold) return BERTH_TRIGGER_FORECAST;
    return moves_rise ? BERTH_TRIGGER_MOVES : BERTH_TRIGGER_NONE;
}

/// True while a trigger that wants compaction goes on doing so.
static bool persists(const berth_trigger* trigger, const berth_trigger_input* input) {
    if (trigger->reason == BERTH_TRIGGER_NONE) return false;
    return input->is_expected || input->fi > HYSTERESIS * trigger->config.fi_threshold;
}

berth_trigger_reason berth_trigger_update(berth_trigger* trigger,
                                          const berth_trigger_input* input) {
    const bool moves_rise = follow_moves(trigger, input);
    const bool has_failed = input->refused != trigger->last_refused;
    trigger->last_refused = input->refused;
    if (input->gain_bytes < input->granule_bytes) {
        trigger->reason = BERTH_TRIGGER_NONE;
        return BERTH_TRIGGER_NONE;
    }
    if (has_failed) return want(trigger, BERTH_TRIGGER_FAILING);
    if (persists(trigger, input)) return trigger->reason;
    return want(trigger, find_reason(trigger, input, moves_rise));
}

berth_trigger_reason berth_trigger_idle(berth_trigger* trigger, const berth_trigger_input* input) {
    const berth_trigger_reason reason = berth_trigger_update(trigger, input);
    if (reason != BERTH_TRIGGER_NONE || input->gain_bytes < input->granule_bytes) return reason;
    return want(trigger, BERTH_TRIGGER_IDLE);
}

void berth_trigger_finish(berth_trigger* trigger, uint64_t now_ns, uint64_t gained_bytes) {
    trigger->reason = BERTH_TRIGGER_NONE;
    if (gained_bytes > 0)
        trigger->fruitless = 0;
    else if (trigger->fruitless < MOST_FRUITLESS)
        trigger->fruitless++;
    const uint64_t pause = trigger->config.cooldown_ns;
    const uint32_t doublings = trigger->fruitless;
    const uint64_t whole = pause > UINT64_MAX >> doublings ? UINT64_MAX : pause << doublings;
    trigger->ready_ns = whole > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + whole;
}
