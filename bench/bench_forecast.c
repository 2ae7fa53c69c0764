// SPDX-License-Identifier: Apache-2.0
// How well failures and moves are foretold: precision, recall and F1 on stretches of load that were
// not used to tune the forecast, beside the predictors always, never and last-value. An event is a
// request that fails or needs a move though enough is free; a prediction is right if the next H
// takes bring one.
//
// usage: bench-forecast [--json FILE] [--only TEXT] [--horizon TAKES] [--takes N] [--tuning]
// With --tuning the stretches that the forecast was tuned on run instead.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/load.h"
#include "kit/json_rows.h"

#define HORIZON 32
#define TAKES 40000
/// Not scored: the device fills up.
#define WARM_UP_HORIZONS 8

/// Half of the recorded data and a seed each.
typedef struct stretch {
    load_part part;
    uint64_t seed;
    bool no_remap;
} stretch;

static const stretch evaluation[] = {{LOAD_SECOND_HALF, 7003, false},
                                     {LOAD_SECOND_HALF, 7004, true}};
static const stretch tuning[] = {{LOAD_FIRST_HALF, 11, false}, {LOAD_FIRST_HALF, 12, true}};

typedef struct bench_options {
    const char* json;
    const char* only;
    uint64_t horizon;
    uint64_t takes;
    bool is_tuning;
} bench_options;

static const char* const predictor_names[STAND_PREDICTORS] = {
    "forecast", "always", "never", "last-value"};

static void print_score(const char* name, const stand_score* score) {
    printf("%-16s %7llu %7llu %8llu",
           name,
           (unsigned long long)score->events,
           (unsigned long long)score->positives,
           (unsigned long long)score->predictions);
    for (int k = 0; k < STAND_PREDICTORS; k++) {
        const stand_predictor at = (stand_predictor)k;
        if (at == STAND_NEVER) continue;
        printf("  %5.3f %5.3f %5.3f",
               stand_precision(score, at),
               stand_recall(score, at),
               stand_f1(score, at));
    }
    const double count = score->fi_count > 0 ? (double)score->fi_count : 1;
    printf("  %6.4f %6.4f\n", score->fi_error / count, score->fi_still_error / count);
    fflush(stdout);
}

static void write_rows(json_rows* out, const char* name, const stand_score* score) {
    for (int k = 0; k < STAND_PREDICTORS; k++) {
        const stand_predictor at = (stand_predictor)k;
        json_rows_begin(out, "stretch", name);
        json_rows_text(out, "predictor", predictor_names[k]);
        json_rows_count(out, "events", score->events);
        json_rows_count(out, "positives", score->positives);
        json_rows_count(out, "predictions", score->predictions);
        json_rows_number(out, "precision", stand_precision(score, at));
        json_rows_number(out, "recall", stand_recall(score, at));
        json_rows_number(out, "f1", stand_f1(score, at));
        json_rows_end(out);
    }
}

static void add(stand_score* all, const stand_score* one) {
    all->events += one->events;
    all->positives += one->positives;
    all->predictions += one->predictions;
    for (int k = 0; k < STAND_PREDICTORS; k++) {
        all->hits[k] += one->hits[k];
        all->alarms[k] += one->alarms[k];
    }
    all->fi_error += one->fi_error;
    all->fi_still_error += one->fi_still_error;
    all->fi_count += one->fi_count;
}

static stand_score run(const load* l, const stretch* where, const bench_options* options) {
    stand_score score = {0};
    stand* s = stand_create(options->horizon, where->no_remap);
    l->run(l, s, where->part, where->seed, options->takes);
    stand_add_score(s, WARM_UP_HORIZONS * options->horizon, &score);
    stand_destroy(s);
    return score;
}

static void run_all(const bench_options* options, json_rows* json) {
    const stretch* stretches = options->is_tuning ? tuning : evaluation;
    stand_score all = {0};
    printf("horizon %llu takes; stretches of %s, none of them used for %s\n",
           (unsigned long long)options->horizon,
           options->is_tuning ? "tuning" : "evaluation",
           options->is_tuning ? "evaluation" : "tuning");
    printf("%-16s %7s %7s %8s  %-17s  %-17s  %-17s  %s\n",
           "stretch",
           "events",
           "before",
           "asked",
           "forecast P R F1",
           "always P R F1",
           "last-value P R F1",
           "error of index: foretold, unchanged");
    for (const load* l = load_list; l->name != NULL; l++) {
        for (int i = 0; i < 2; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", l->name, stretches[i].no_remap ? "/copy" : "");
            if (options->only != NULL && strstr(name, options->only) == NULL) continue;
            const stand_score score = run(l, &stretches[i], options);
            print_score(name, &score);
            write_rows(json, name, &score);
            add(&all, &score);
        }
    }
    print_score("all", &all);
    write_rows(json, "all", &all);
}

static bool parse(int count, char** arguments, bench_options* options) {
    *options = (bench_options){.horizon = HORIZON, .takes = TAKES};
    for (int i = 1; i < count; i++) {
        const char* value = i + 1 < count ? arguments[i + 1] : NULL;
        if (strcmp(arguments[i], "--tuning") == 0) {
            options->is_tuning = true;
            continue;
        }
        if (value == NULL) return false;
        if (strcmp(arguments[i], "--json") == 0)
            options->json = value;
        else if (strcmp(arguments[i], "--only") == 0)
            options->only = value;
        else if (strcmp(arguments[i], "--horizon") == 0)
            options->horizon = strtoull(value, NULL, 10);
        else if (strcmp(arguments[i], "--takes") == 0)
            options->takes = strtoull(value, NULL, 10);
        else
            return false;
        i++;
    }
    return options->horizon > 0 && options->takes > 0;
}

int main(int count, char** arguments) {
    bench_options options;
    if (!parse(count, arguments, &options)) {
        fprintf(stderr,
                "usage: bench-forecast [--json FILE] [--only TEXT] [--horizon TAKES] "
                "[--takes N] [--tuning]\n");
        return 2;
    }
    json_rows json = json_rows_open(options.json);
    run_all(&options, &json);
    json_rows_close(&json);
    return 0;
}
