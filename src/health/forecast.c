// SPDX-License-Identifier: Apache-2.0
// The forecast: features, a logistic model that learns as predictions come due, a threshold that
// follows from the record.
// Source: the threshold that maximises F is half of F itself, Lipton, Elkan, Naryanaswamy, ECML
// 2014, arXiv:1402.1892, here for F with recall weighted; step sizes after Duchi, Hazan, Singer,
// Adaptive subgradient methods, JMLR 2011; the trend is Holt's, damped.
#include "health/forecast.h"

#include <math.h>
#include <string.h>

/// Sizes asked for are remembered for about so many horizons.
#define MEMORY_HORIZONS 4.0
/// The weight of recall over precision, squared.
#define RECALL_WEIGHT 4.0
/// A pause decays at most by e to this power.
#define MOST_DECAY 20.0
#define MOST_UNIT 1e6F
#define LEAST_THRESHOLD 0.08
#define MOST_THRESHOLD 0.6
/// Of the record that sets the threshold, what stays at each prediction that comes due.
#define RECORD_DECAY 0.998
#define LEARNING_RATE 0.1
/// As many squared gradients are taken as seen before the first, so that it does not count for all.
#define PRIOR_SQUARES 4.0
#define FI_WEIGHT 0.8
#define SLOPE_WEIGHT 0.05
#define SLOPE_DAMPING 0.9

/// The features, in order.
enum {
    BIAS,
    DEMAND_NOW,    ///< log of requests expected that fit the free memory but no stretch
    DEMAND_WORST,  ///< the same with the least stretch and most free memory of the last horizon
    CAME_LATELY,   ///< the event came in the last horizon
    EVENT_RATE,    ///< log of events a horizon
    SINCE_EVENT,   ///< log of the horizons since the last event
    LARGEST_RATIO, ///< log of the largest common request over the largest stretch
    FREE_RATIO,    ///< log of it over the free memory
    CAN_GROW,      ///< more can be mapped for it
    FULLNESS,      ///< used of all that there is
    ECHO_KNOWN,    ///< the last requests have come before
    ECHO_EVENT,    ///< share of those times that the event followed
    ECHO_DEMAND,   ///< log of requests that followed then and would be events now
    ECHO_LARGEST,  ///< log of the largest one over the largest stretch
};

/// What the model believes before it has seen this program.
static const double prior[BERTH_FORECAST_FEATURES] = {
    [BIAS] = -2.2,
    [DEMAND_NOW] = 0.1,
    [DEMAND_WORST] = 0,
    [CAME_LATELY] = 0.5,
    [EVENT_RATE] = 0.4,
    [SINCE_EVENT] = -0.1,
    [LARGEST_RATIO] = 0.3,
    [FREE_RATIO] = -0.25,
    [CAN_GROW] = -0.3,
    [FULLNESS] = 0.8,
    [ECHO_KNOWN] = -0.7,
    [ECHO_EVENT] = 4.2,
    [ECHO_DEMAND] = 0,
    [ECHO_LARGEST] = 0.5,
};

void berth_forecast_init(berth_forecast* forecast, uint64_t horizon_takes) {
    memset(forecast, 0, sizeof *forecast);
    forecast->horizon_takes = horizon_takes;
    forecast->threshold = 0.3;
    forecast->unit = 1;
    memcpy(forecast->weights, prior, sizeof prior);
    for (uint32_t i = 0; i < BERTH_FORECAST_FEATURES; i++)
        forecast->squares[i] = PRIOR_SQUARES;
}

uint64_t berth_forecast_period(const berth_forecast* forecast) {
    const uint64_t period = forecast->horizon_takes / BERTH_FORECAST_SAMPLES;
    return period > 0 ? period : 1;
}

static berth_forecast_pending* pending_at(berth_forecast* forecast, uint32_t index) {
    return &forecast->pending[(forecast->first + index) % (2 * BERTH_FORECAST_SAMPLES)];
}

void berth_forecast_note(
    berth_forecast* forecast, uint64_t site, uint64_t size_bytes, uint64_t takes, bool is_event) {
    berth_echo_note(&forecast->echo, site, size_bytes, takes, is_event);
    forecast->asked[berth_asked_class(size_bytes)] += forecast->unit;
    if (!is_event) return;
    forecast->events++;
    forecast->last_event_takes = takes;
    for (uint32_t i = 0; i < forecast->pending_count; i++) {
        berth_forecast_pending* p = pending_at(forecast, i);
        if (takes - p->takes <= forecast->horizon_takes) p->has_come = true;
    }
}

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/// A step down the gradient of the logarithmic loss.
static void learn(berth_forecast* forecast, const berth_forecast_pending* due) {
    const double error = due->probability - (due->has_come ? 1.0 : 0.0);
    for (uint32_t i = 0; i < BERTH_FORECAST_FEATURES; i++) {
        const double gradient = error * due->features[i];
        forecast->squares[i] += gradient * gradient;
        forecast->weights[i] -= LEARNING_RATE * gradient / sqrt(forecast->squares[i]);
    }
}

static void set_threshold(berth_forecast* forecast) {
    const double hits = (1 + RECALL_WEIGHT) * forecast->recent[0];
    const double all = hits + RECALL_WEIGHT * forecast->recent[2] + forecast->recent[1];
    // before much is known, as if one in two were right
    const double f = (hits + 4) / (all + 8);
    forecast->threshold = clamp(f / (1 + RECALL_WEIGHT), LEAST_THRESHOLD, MOST_THRESHOLD);
}

static void count(berth_forecast* forecast, const berth_forecast_pending* due) {
    berth_forecast_record* record = &forecast->record;
    for (int i = 0; i < 3; i++)
        forecast->recent[i] *= RECORD_DECAY;
    if (due->was_said && due->has_come) {
        record->true_positives++;
        forecast->recent[0]++;
    } else if (due->was_said) {
        record->false_positives++;
        forecast->recent[1]++;
    } else if (due->has_come) {
        record->false_negatives++;
        forecast->recent[2]++;
    } else {
        record->true_negatives++;
    }
}

static void resolve(berth_forecast* forecast, uint64_t takes) {
    while (forecast->pending_count > 0) {
        const berth_forecast_pending* due = pending_at(forecast, 0);
        if (takes - due->takes <= forecast->horizon_takes) return;
        count(forecast, due);
        learn(forecast, due);
        set_threshold(forecast);
        forecast->first = (forecast->first + 1) % (2 * BERTH_FORECAST_SAMPLES);
        forecast->pending_count--;
    }
}

/// Keeps the unit in range.
static void rescale(berth_forecast* forecast) {
    for (uint32_t i = 0; i < BERTH_ASKED_CLASSES; i++)
        forecast->asked[i] /= forecast->unit;
    forecast->asked_takes /= (double)forecast->unit;
    forecast->unit = 1;
}

/// Lets what came before count for less, and takes the pool's stretches in.
static void take_in(berth_forecast* forecast, const berth_forecast_input* input) {
    const double horizon = (double)forecast->horizon_takes;
    const double passed = (double)(input->takes - forecast->last_takes);
    const double keep = exp(-fmin(passed / (MEMORY_HORIZONS * horizon), MOST_DECAY));
    forecast->asked_takes += (double)forecast->unit * passed;
    forecast->unit = (float)((double)forecast->unit / keep);
    if (forecast->unit > MOST_UNIT) rescale(forecast);
    forecast->last_takes = input->takes;
    const double fresh_events = (double)(forecast->events - forecast->sampled_events);
    forecast->sampled_events = forecast->events;
    const double rate = passed > 0 ? fresh_events * horizon / passed : 0;
    forecast->event_rate += (1 - keep) * (rate - forecast->event_rate);
    const uint32_t at = (uint32_t)(forecast->sample_count % BERTH_FORECAST_SAMPLES);
    forecast->past_largest[at] = input->largest_bytes;
    forecast->past_free[at] = input->free_bytes;
    forecast->sample_count++;
}

double berth_forecast_query_demand(const berth_forecast* forecast, uint64_t size, uint64_t limit) {
    if (forecast->asked_takes <= 0 || limit <= size) return 0;
    const uint32_t low = size == 0 ? 0 : berth_asked_class(size);
    const uint32_t high = berth_asked_class(limit);
    double sum = 0;
    for (uint32_t i = low; i <= high; i++) {
        const double floor = (double)berth_asked_floor(i);
        const double width =
            (i + 1 < BERTH_ASKED_CLASSES ? (double)berth_asked_floor(i + 1) : 2 * floor) - floor;
        const double begin = clamp(((double)size - floor) / width, 0, 1);
        const double end = clamp(((double)limit - floor) / width, 0, 1);
        sum += (double)forecast->asked[i] * (end - begin);
    }
    return sum / forecast->asked_takes * (double)forecast->horizon_takes;
}

/// The largest size of which, with those above, at least one in two horizons is asked for.
static uint64_t largest_common(const berth_forecast* forecast) {
    if (forecast->asked_takes <= 0) return 1;
    const double enough = 0.5 * forecast->asked_takes / (double)forecast->horizon_takes;
    double sum = 0;
    for (uint32_t i = BERTH_ASKED_CLASSES; i-- > 0;) {
        sum += (double)forecast->asked[i];
        if (sum >= enough) return berth_asked_floor(i);
    }
    return 1;
}

static double log_ratio(uint64_t a, uint64_t b) {
    return clamp(log2(((double)a + 1) / ((double)b + 1)), -4, 4);
}

static double log_count(double x) { return log(x + 0.02) + 2; }

/// What the same requests brought before.
static void describe_echo(berth_forecast* forecast, const berth_forecast_input* input, double* x) {
    berth_echo_answer answer;
    berth_echo_ask(
        &forecast->echo, forecast->horizon_takes, input->largest_bytes, input->free_bytes, &answer);
    if (answer.matches == 0) {
        x[ECHO_DEMAND] = x[DEMAND_NOW];
        return;
    }
    x[ECHO_KNOWN] = answer.is_long ? 1 : 0.5;
    x[ECHO_EVENT] = answer.event_share;
    x[ECHO_DEMAND] = log_count(answer.between);
    x[ECHO_LARGEST] = log_ratio(answer.largest_bytes, input->largest_bytes);
}

static void describe(berth_forecast* forecast, const berth_forecast_input* input, double* x) {
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < BERTH_FORECAST_SAMPLES && i < forecast->sample_count; i++) {
        if (forecast->past_largest[i] < least) least = forecast->past_largest[i];
        if (forecast->past_free[i] > most) most = forecast->past_free[i];
    }
    const uint64_t common = largest_common(forecast);
    const double horizon = (double)forecast->horizon_takes;
    const double since = (double)(input->takes - forecast->last_event_takes) / horizon;
    const double all =
        (double)input->used_bytes + (double)input->free_bytes + (double)input->room_bytes + 1;
    x[BIAS] = 1;
    x[DEMAND_NOW] =
        log_count(berth_forecast_query_demand(forecast, input->largest_bytes, input->free_bytes));
    x[DEMAND_WORST] = log_count(berth_forecast_query_demand(forecast, least, most));
    x[CAME_LATELY] = forecast->events > 0 && since <= 1 ? 1 : 0;
    x[EVENT_RATE] = log_count(forecast->event_rate);
    x[SINCE_EVENT] = forecast->events > 0 ? clamp(log2(since + 0.1), -3, 4) : 4;
    x[LARGEST_RATIO] = log_ratio(common, input->largest_bytes);
    x[FREE_RATIO] = log_ratio(common, input->free_bytes);
    x[CAN_GROW] = input->room_bytes >= common ? 1 : 0;
    x[FULLNESS] = (double)input->used_bytes / all;
    describe_echo(forecast, input, x);
}

static void predict_fi(berth_forecast* forecast, double fi) {
    const double before = forecast->fi_level;
    if (forecast->sample_count == 1) {
        forecast->fi_level = fi;
    } else {
        const double expected = before + SLOPE_DAMPING * forecast->fi_slope;
        forecast->fi_level = expected + FI_WEIGHT * (fi - expected);
        forecast->fi_slope = (1 - SLOPE_WEIGHT) * SLOPE_DAMPING * forecast->fi_slope +
                             SLOPE_WEIGHT * (forecast->fi_level - before);
    }
    double reach = 0, factor = 1;
    for (uint32_t i = 0; i < BERTH_FORECAST_SAMPLES; i++)
        reach += factor *= SLOPE_DAMPING;
    forecast->fi_predicted = clamp(forecast->fi_level + reach * forecast->fi_slope, 0, 1);
}

void berth_forecast_sample(berth_forecast* forecast, const berth_forecast_input* input) {
    resolve(forecast, input->takes);
    take_in(forecast, input);
    predict_fi(forecast, input->fi);
    berth_forecast_pending fresh = {.takes = input->takes};
    describe(forecast, input, fresh.features);
    double sum = 0;
    for (uint32_t i = 0; i < BERTH_FORECAST_FEATURES; i++)
        sum += forecast->weights[i] * fresh.features[i];
    fresh.probability = 1 / (1 + exp(-sum));
    fresh.was_said = fresh.probability >= forecast->threshold;
    forecast->probability = fresh.probability;
    forecast->is_expected = fresh.was_said;
    // who samples more often than once a period gets predictions that nobody checks
    if (forecast->pending_count < 2 * BERTH_FORECAST_SAMPLES)
        *pending_at(forecast, forecast->pending_count++) = fresh;
}
