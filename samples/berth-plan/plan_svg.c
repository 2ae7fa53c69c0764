// SPDX-License-Identifier: Apache-2.0
// Draws packings as SVG: time across, addresses up, one rectangle a buffer.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

/// In pixels.
enum { WIDTH = 1200, HEIGHT = 700, LEFT = 110, RIGHT = 30, TOP = 50, BOTTOM = 60 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = HEIGHT - TOP - BOTTOM };
enum { LABEL_PIXELS = 11, TICKS = 8, TITLE_CHARS = 125 };

/// Fills, light enough for dark text; neighbours differ.
static const char* const fills[] = {"#8ecae6",
                                    "#f4a261",
                                    "#a7c957",
                                    "#e5989b",
                                    "#cdb4db",
                                    "#ffd166",
                                    "#90be6d",
                                    "#b5c7f2",
                                    "#f2b5d4",
                                    "#9fd8cb",
                                    "#d6ccc2",
                                    "#e9c46a"};
enum { FILLS = sizeof fills / sizeof fills[0] };

/// A buffer as drawn.
typedef struct box {
    uint64_t lower;
    uint64_t upper;
    uint64_t begin; ///< addresses
    uint64_t end;
    size_t index;
    uint8_t fill;
} box;

/// The drawing.
typedef struct canvas {
    FILE* stream;
    const plan_case* item;
    box* boxes; ///< [count] by lower; buffers without bytes or lifetime are left out
    size_t count;
    uint64_t first; ///< moment at the left
    uint64_t last;
    uint64_t highest; ///< address at the top
    uint64_t capacity;
} canvas;

// ---- Text.

/// Writes text that markup cannot end, and nothing that XML forbids.
static void write_text(FILE* stream, const char* text) {
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&')
            (void)fputs("&amp;", stream);
        else if (c == '<')
            (void)fputs("&lt;", stream);
        else if (c == '>')
            (void)fputs("&gt;", stream);
        else if (c == '"')
            (void)fputs("&quot;", stream);
        else
            (void)fputc(c < 0x20 || c > 0x7E ? '?' : c, stream);
    }
}

/// Writes `bytes` to four digits, in the largest unit that it fills.
static void format_bytes(uint64_t bytes, char* out, size_t size) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, size, "%.4g %s", value, units[unit]);
}

// ---- Places.

static double x_of(const canvas* self, uint64_t moment) {
    const double span = (double)(self->last - self->first);
    return LEFT + (double)(moment - self->first) / span * PLOT_WIDTH;
}

static double y_of(const canvas* self, uint64_t address) {
    return TOP + PLOT_HEIGHT - (double)address / (double)self->highest * PLOT_HEIGHT;
}

/// The step between ticks: 1, 2 or 5 times a power of ten, or with `binary` a power of two.
static uint64_t tick_step(uint64_t span, bool binary) {
    static const unsigned decimal_steps[] = {2, 5, 10};
    uint64_t step = 1;
    uint64_t power = 1;
    for (unsigned i = 0; span / step > TICKS && step < UINT64_MAX / 20; i++) {
        if (binary) {
            step *= 2;
            continue;
        }
        step = power * decimal_steps[i % 3];
        if (i % 3 == 2) power *= 10;
    }
    return step;
}

// ---- Boxes.

static int compare_boxes(const void* a, const void* b) {
    const box* x = a;
    const box* y = b;
    if (x->lower != y->lower) return x->lower < y->lower ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static bool make_boxes(canvas* self) {
    const berth_pack_problem* pack = berth_problem_query_pack(self->item->problem);
    self->boxes = calloc(pack->count + 1, sizeof *self->boxes);
    if (self->boxes == NULL) return false;
    self->first = UINT64_MAX;
    for (size_t i = 0; i < pack->count; i++) {
        berth_problem_row row;
        if (berth_problem_query_row(self->item->problem, i, &row) != BERTH_OK) return false;
        if (row.size == 0 || row.lower >= row.upper) continue;
        const uint64_t begin = self->item->offsets[i];
        self->boxes[self->count++] = (box){row.lower, row.upper, begin, begin + row.size, i, 0};
        if (row.lower < self->first) self->first = row.lower;
        if (row.upper > self->last) self->last = row.upper;
        if (begin + row.size > self->highest) self->highest = begin + row.size;
    }
    qsort(self->boxes, self->count, sizeof *self->boxes, compare_boxes);
    if (self->count == 0) self->first = 0;
    if (self->last <= self->first) self->last = self->first + 1;
    if (self->capacity > self->highest && self->capacity / 2 < self->highest)
        self->highest = self->capacity;
    if (self->highest == 0) self->highest = 1;
    return true;
}

/// True if two boxes share a part of an edge or more.
static bool touch(const box* a, const box* b) {
    return a->lower <= b->upper && b->lower <= a->upper && a->begin <= b->end && b->begin <= a->end;
}

/// Gives each box the first fill that no neighbour before it has, beginning elsewhere each time.
static bool colour(canvas* self) {
    size_t* near = calloc(self->count + 1, sizeof *near);
    if (near == NULL) return false;
    size_t near_count = 0;
    for (size_t i = 0; i < self->count; i++) {
        box* own = &self->boxes[i];
        unsigned taken = 0;
        size_t kept = 0;
        for (size_t k = 0; k < near_count; k++) {
            const box* other = &self->boxes[near[k]];
            if (other->upper < own->lower) continue;
            near[kept++] = near[k];
            if (touch(own, other)) taken |= 1u << other->fill;
        }
        near_count = kept;
        near[near_count++] = i;
        unsigned fill = (unsigned)(i * 5) % FILLS;
        for (unsigned tries = 0; tries < FILLS && (taken >> fill & 1u) != 0; tries++)
            fill = (fill + 1) % FILLS;
        own->fill = (uint8_t)fill;
    }
    free(near);
    return true;
}

// ---- Drawing.

static void draw_label(const canvas* self, const box* own, const berth_problem_row* row) {
    const double width = x_of(self, own->upper) - x_of(self, own->lower);
    const double height = y_of(self, own->begin) - y_of(self, own->end);
    char size[32];
    format_bytes(row->size, size, sizeof size);
    const size_t id_chars = strlen(row->id);
    const size_t name_chars = id_chars + (row->label[0] != '\0' ? 1 + strlen(row->label) : 0);
    const double char_pixels = LABEL_PIXELS * 0.62;
    const double room = (width - 6) / char_pixels;
    if (height < LABEL_PIXELS + 2 || (double)id_chars > room) return;
    (void)fprintf(self->stream,
                  "<text class=\"l\" x=\"%.2f\" y=\"%.2f\">",
                  x_of(self, own->lower) + width / 2,
                  y_of(self, own->begin) - height / 2 + LABEL_PIXELS * 0.35);
    write_text(self->stream, row->id);
    if (name_chars > id_chars && (double)name_chars <= room) {
        (void)fputc(' ', self->stream);
        write_text(self->stream, row->label);
    }
    if ((double)(name_chars + 2 + strlen(size)) <= room) (void)fprintf(self->stream, ", %s", size);
    (void)fputs("</text>\n", self->stream);
}

static void draw_box(const canvas* self, const box* own) {
    berth_problem_row row;
    if (berth_problem_query_row(self->item->problem, own->index, &row) != BERTH_OK) return;
    (void)fprintf(self->stream,
                  "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>",
                  x_of(self, own->lower),
                  y_of(self, own->end),
                  x_of(self, own->upper) - x_of(self, own->lower),
                  y_of(self, own->begin) - y_of(self, own->end),
                  fills[own->fill]);
    write_text(self->stream, row.id);
    if (row.label[0] != '\0') {
        (void)fputc(' ', self->stream);
        write_text(self->stream, row.label);
    }
    (void)fprintf(self->stream,
                  ": %" PRIu64 " bytes at %" PRIu64 ", from %" PRIu64 " to %" PRIu64
                  "%s</title></rect>\n",
                  row.size,
                  own->begin,
                  row.lower,
                  row.upper,
                  row.escapes ? ", escapes" : "");
}

static void draw_time_axis(const canvas* self) {
    const uint64_t step = tick_step(self->last - self->first, false);
    uint64_t tick = self->first / step * step;
    if (tick < self->first) tick += step;
    for (; tick <= self->last && tick >= self->first; tick += step)
        (void)fprintf(self->stream,
                      "<path class=\"g\" d=\"M%.2f %d v%d\"/><text class=\"x\" x=\"%.2f\" "
                      "y=\"%d\">%" PRIu64 "</text>\n",
                      x_of(self, tick),
                      TOP,
                      PLOT_HEIGHT + 5,
                      x_of(self, tick),
                      TOP + PLOT_HEIGHT + 20,
                      tick);
    (void)fprintf(self->stream,
                  "<text class=\"x\" x=\"%d\" y=\"%d\">time (steps)</text>\n",
                  LEFT + PLOT_WIDTH / 2,
                  HEIGHT - 15);
}

static void draw_address_axis(const canvas* self) {
    const uint64_t step = tick_step(self->highest, true);
    for (uint64_t tick = 0; tick <= self->highest; tick += step) {
        char text[32];
        format_bytes(tick, text, sizeof text);
        (void)fprintf(self->stream,
                      "<path class=\"g\" d=\"M%d %.2f h%d\"/><text class=\"y\" x=\"%d\" "
                      "y=\"%.2f\">%s</text>\n",
                      LEFT - 5,
                      y_of(self, tick),
                      PLOT_WIDTH + 5,
                      LEFT - 9,
                      y_of(self, tick) + 4,
                      text);
    }
    (void)fprintf(self->stream,
                  "<text class=\"x\" transform=\"translate(18 %d) rotate(-90)\">address</text>\n",
                  TOP + PLOT_HEIGHT / 2);
}

static void draw_level(const canvas* self, uint64_t address, const char* name, double shift) {
    if (address > self->highest) return;
    (void)fprintf(self->stream,
                  "<path class=\"b\" d=\"M%d %.2f h%d\"/><text class=\"n\" x=\"%d\" "
                  "y=\"%.2f\">%s %" PRIu64 "</text>\n",
                  LEFT,
                  y_of(self, address),
                  PLOT_WIDTH,
                  WIDTH - RIGHT - 4,
                  y_of(self, address) + shift,
                  name,
                  address);
}

/// The name, cut at its front where the line would be too long, and the result.
static void draw_title(const canvas* self) {
    const berth_pack_result* result = &self->item->result;
    const char* name = self->item->name;
    char told[160];
    (void)snprintf(told,
                   sizeof told,
                   ": %zu buffers, peak %" PRIu64 " bytes, lower bound %" PRIu64 "%s",
                   berth_problem_query_pack(self->item->problem)->count,
                   result->peak,
                   result->lower_bound,
                   result->proved ? ", proved" : "");
    const size_t room = TITLE_CHARS - strlen(told);
    const size_t length = strlen(name);
    (void)fprintf(self->stream, "<text x=\"%d\" y=\"26\" font-size=\"15\">", LEFT);
    if (length > room) (void)fputs("...", self->stream);
    write_text(self->stream, length > room ? name + (length - room + 3) : name);
    (void)fprintf(self->stream, "%s</text>\n", told);
}

static void draw_head(const canvas* self) {
    (void)fprintf(self->stream,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n"
                  "<style>rect{stroke:#333;stroke-width:0.5}text{fill:#111}\n"
                  ".l{font-size:%dpx;text-anchor:middle;pointer-events:none}\n"
                  ".x{font-size:12px;text-anchor:middle}.y{font-size:12px;text-anchor:end}\n"
                  ".n{font-size:11px;text-anchor:end;paint-order:stroke;stroke:#fff;"
                  "stroke-width:3px}\n"
                  ".g{stroke:#ddd;fill:none}.b{stroke:#c1121f;fill:none;stroke-dasharray:6 4}"
                  "</style>\n"
                  "<path d=\"M0 0h%dv%dH0z\" fill=\"#fff\"/>\n",
                  WIDTH,
                  HEIGHT,
                  WIDTH,
                  HEIGHT,
                  LABEL_PIXELS,
                  WIDTH,
                  HEIGHT);
    draw_title(self);
}

static void draw(const canvas* self) {
    draw_head(self);
    draw_time_axis(self);
    draw_address_axis(self);
    for (size_t i = 0; i < self->count; i++)
        draw_box(self, &self->boxes[i]);
    for (size_t i = 0; i < self->count; i++) {
        berth_problem_row row;
        if (berth_problem_query_row(self->item->problem, self->boxes[i].index, &row) == BERTH_OK)
            draw_label(self, &self->boxes[i], &row);
    }
    draw_level(self, self->item->result.lower_bound, "lower bound", 14);
    if (self->capacity > 0) draw_level(self, self->capacity, "capacity", -4);
    (void)fprintf(self->stream,
                  "<path d=\"M%d %dv%dh%d\" fill=\"none\" stroke=\"#333\"/>\n</svg>\n",
                  LEFT,
                  TOP,
                  PLOT_HEIGHT,
                  PLOT_WIDTH);
}

bool plan_write_svg(const plan_case* item, uint64_t capacity, const char* pattern) {
    canvas self = {.item = item, .capacity = capacity};
    plan_file file;
    bool done = false;
    if (!make_boxes(&self) || !colour(&self)) {
        (void)fputs("berth-plan: out of memory\n", stderr);
    } else if (plan_file_begin(&file, pattern, item)) {
        self.stream = file.stream;
        draw(&self);
        done = plan_file_end(&file);
    }
    free(self.boxes);
    return done;
}
