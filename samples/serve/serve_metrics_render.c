// SPDX-License-Identifier: Apache-2.0
// Both forms of a server's numbers.
#include "api_json.h"
#include "serve_metrics_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// Bytes of a name that is shown, cut and made valid.
enum { SHOWN_BYTES = 256 };

typedef struct shown {
    char text[SHOWN_BYTES];
} shown;

/// A copy that is valid UTF-8: what is none, and what was cut off within a character, is '?'.
static shown show(const char* text) {
    shown copy;
    snprintf(copy.text, sizeof copy.text, "%s", text == NULL ? "" : text);
    api_mend_utf8(copy.text);
    return copy;
}

// ---- Text.

/// Text that grows until memory is short.
typedef struct writer {
    llm_bytes* out;
    bool is_short;
} writer;

static void put(writer* w, const char* text) {
    if (!w->is_short) w->is_short = llm_bytes_append(w->out, text, strlen(text), NULL) != BERTH_OK;
}

/// Puts text as the value of a label.
static void put_label(writer* w, const char* name, const char* value) {
    const shown copy = show(value);
    put(w, name);
    put(w, "=\"");
    for (const char* at = copy.text; *at != '\0'; at++) {
        const char one[2] = {*at, '\0'};
        if (*at == '\n')
            put(w, "\\n");
        else if (*at == '"' || *at == '\\')
            put(w, "\\");
        if (*at != '\n') put(w, one);
    }
    put(w, "\"");
}

static void put_value(writer* w, serve_value value) {
    char text[48];
    if (value.is_real)
        snprintf(text, sizeof text, " %.15g\n", value.real);
    else
        snprintf(text, sizeof text, " %" PRId64 "\n", value.count);
    put(w, text);
}

static void put_head(writer* w, const char* name, const char* kind, const char* help) {
    const char* parts[] = {
        "# HELP berth_", name, " ", help, "\n# TYPE berth_", name, " ", kind, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        put(w, parts[i]);
}

/// Puts what stands before a value; `suffix` goes to the family's name.
static void put_name(writer* w, const char* name, const char* suffix, const char* labels) {
    put(w, "berth_");
    put(w, name);
    put(w, suffix);
    if (labels[0] == '\0') return;
    put(w, "{");
    put(w, labels);
    put(w, "}");
}

static void put_build(writer* w, const api_about* about) {
    put_head(w, "build_info", "gauge", "Version of Berth, the model, and how keys are cached.");
    put(w, "berth_build_info{");
    put_label(w, "version", about->version);
    put(w, ",");
    put_label(w, "model", about->model_name);
    put(w, ",");
    put_label(w, "kv_type", about->kv_type);
    put(w, "} 1\n");
}

static void put_series(writer* w, const serve_view* view) {
    const serve_family* families = serve_families();
    size_t count;
    const serve_series* list = serve_series_list(&count);
    for (size_t i = 0; i < count; i++) {
        const serve_family* family = &families[list[i].family];
        if (i == 0 || list[i].family != list[i - 1].family)
            put_head(
                w, family->name, family->kind == SERVE_GAUGE ? "gauge" : "counter", family->help);
        put_name(w, family->name, "", list[i].labels);
        put_value(w, serve_series_value(view, &list[i]));
    }
}

static void put_histogram(writer* w,
                          const serve_histogram_series* series,
                          const serve_histogram* histogram) {
    size_t count;
    const double* bounds = serve_histogram_bounds(series->unit, &count);
    put_head(w, series->name, "histogram", series->help);
    uint64_t sum = 0;
    for (size_t i = 0; i <= count; i++) {
        char label[32] = "le=\"+Inf\"";
        if (i < count) snprintf(label, sizeof label, "le=\"%.15g\"", bounds[i]);
        sum += histogram->counts[i];
        put_name(w, series->name, "_bucket", label);
        put_value(w, (serve_value){.count = (int64_t)sum});
    }
    put_name(w, series->name, "_sum", "");
    put_value(w, (serve_value){.is_real = true, .real = histogram->sum});
    put_name(w, series->name, "_count", "");
    put_value(w, (serve_value){.count = (int64_t)sum});
}

static const serve_histogram* histogram_of(const serve_view* view,
                                           const serve_histogram_series* series) {
    return (const void*)((const char*)&view->s.latencies + series->offset);
}

bool serve_metrics_render(const api_about* about,
                          const serve_snapshot* snapshot,
                          const serve_counters* counters,
                          llm_bytes* out) {
    serve_view view;
    serve_view_make(about, snapshot, counters, &view);
    const size_t before = out->size;
    writer w = {.out = out};
    put_build(&w, about);
    put_series(&w, &view);
    size_t count;
    const serve_histogram_series* histograms = serve_histogram_list(&count);
    for (size_t i = 0; i < count; i++)
        put_histogram(&w, &histograms[i], histogram_of(&view, &histograms[i]));
    if (w.is_short) out->size = before;
    return !w.is_short;
}

// ---- JSON.

/// Sets the member at the end of a path of names with dots between; objects on the way are made.
/// Takes `value` over, which may be NULL for want of memory. False if memory is short.
static bool set(json_t* object, const char* path, json_t* value) {
    for (const char* dot = strchr(path, '.'); dot != NULL; dot = strchr(path, '.')) {
        const size_t size = (size_t)(dot - path);
        json_t* next = json_object_getn(object, path, size);
        if (next == NULL) {
            next = json_object();
            if (json_object_setn_new(object, path, size, next) != 0) {
                json_decref(value);
                return false;
            }
        }
        object = next;
        path = dot + 1;
    }
    return json_object_set_new(object, path, value) == 0;
}

static json_t* number_of(serve_value value) {
    return value.is_real ? json_real(value.real) : json_integer(value.count);
}

static bool set_about(json_t* root, const api_about* about) {
    return set(root, "server.version", json_string(show(about->version).text)) &&
           set(root, "server.model", json_string(show(about->model_name).text)) &&
           set(root, "server.kv_type", json_string(show(about->kv_type).text));
}

static bool set_series(json_t* root, const serve_view* view) {
    size_t count;
    const serve_series* list = serve_series_list(&count);
    bool is_set = true;
    for (size_t i = 0; i < count && is_set; i++)
        is_set = set(root, list[i].path, number_of(serve_series_value(view, &list[i])));
    return is_set;
}

static bool set_histogram(json_t* root,
                          const serve_histogram_series* series,
                          const serve_histogram* histogram) {
    const uint64_t count = serve_histogram_count(histogram);
    const double mean = count == 0 ? 0.0 : histogram->sum / (double)count;
    json_t* object = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}",
                               "count",
                               (json_int_t)count,
                               "sum",
                               histogram->sum,
                               "mean",
                               mean,
                               "p50",
                               serve_histogram_quantile(histogram, series->unit, 0.5),
                               "p90",
                               serve_histogram_quantile(histogram, series->unit, 0.9),
                               "p99",
                               serve_histogram_quantile(histogram, series->unit, 0.99),
                               "largest",
                               histogram->largest);
    char path[64];
    snprintf(path, sizeof path, "latency.%s", series->name);
    return set(root, path, object);
}

static bool set_all(json_t* root, const api_about* about, const serve_view* view) {
    size_t count;
    const serve_histogram_series* histograms = serve_histogram_list(&count);
    bool is_set = root != NULL && set_about(root, about) && set_series(root, view);
    for (size_t i = 0; i < count && is_set; i++)
        is_set = set_histogram(root, &histograms[i], histogram_of(view, &histograms[i]));
    return is_set;
}

bool serve_memory_render(const api_about* about,
                         const serve_snapshot* snapshot,
                         const serve_counters* counters,
                         llm_bytes* out) {
    serve_view view;
    serve_view_make(about, snapshot, counters, &view);
    json_t* root = json_object();
    if (set_all(root, about, &view)) return api_json_append(root, out);
    json_decref(root);
    return false;
}
