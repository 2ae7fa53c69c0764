// SPDX-License-Identifier: Apache-2.0
// The farthest next use goes first, leaves before what they follow.
#include "prefix/offline.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kit/fail.h"

#define NEVER SIZE_MAX

/// A block that is or was cached.
typedef struct node {
    size_t parent; ///< NEVER: none
    size_t next_use;
    uint32_t children; ///< cached ones
    bool is_cached;
} node;

typedef struct entry {
    size_t next_use; ///< as it was when the entry was made
    size_t block;
} entry;

typedef struct world {
    const stream* stream;
    size_t* blocks;   ///< [id_count] number of the block that each id of the stream stands for
    size_t* next_use; ///< [id_count] request whose prompt has it next
    node* nodes;
    size_t node_count;
    entry* heap; ///< the farthest on top; entries that are not up to date are passed over
    size_t heap_count;
    size_t heap_capacity;
} world;

static void* make(size_t count, size_t bytes) {
    void* memory = calloc(count + 1, bytes);
    if (memory == NULL) bench_fail_for("offline", "no memory");
    return memory;
}

static void push(world* w, size_t block) {
    if (w->heap_count == w->heap_capacity) {
        w->heap_capacity = 2 * w->heap_capacity + 1024;
        w->heap = realloc(w->heap, w->heap_capacity * sizeof *w->heap);
        if (w->heap == NULL) bench_fail_for("offline", "no memory");
    }
    const entry added = {w->nodes[block].next_use, block};
    size_t at = w->heap_count++;
    for (; at > 0 && w->heap[(at - 1) / 2].next_use < added.next_use; at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = added;
}

static entry pop(world* w) {
    const entry top = w->heap[0], last = w->heap[--w->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->heap_count; at = child) {
        if (child + 1 < w->heap_count && w->heap[child + 1].next_use > w->heap[child].next_use)
            ++child;
        if (w->heap[child].next_use <= last.next_use) break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = last;
    return top;
}

typedef struct named {
    int64_t id;
    size_t place;
} named;

static int compare_named(const void* a, const void* b) {
    const named* x = a;
    const named* y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/// Numbers blocks from 0, one for each id.
static void number_blocks(world* w) {
    const size_t count = w->stream->id_count;
    named* all = make(count, sizeof *all);
    for (size_t i = 0; i < count; ++i)
        all[i] = (named){w->stream->ids[i], i};
    qsort(all, count, sizeof *all, compare_named);
    for (size_t i = 0; i < count; ++i) {
        if (i == 0 || all[i].id != all[i - 1].id) ++w->node_count;
        w->blocks[all[i].place] = w->node_count - 1;
    }
    free(all);
}

static void find_next_uses(world* w) {
    size_t* next = make(w->node_count, sizeof *next);
    memset(next, 0xFF, w->node_count * sizeof *next);
    for (size_t r = w->stream->request_count; r-- > 0;) {
        const stream_request* request = &w->stream->requests[r];
        for (size_t i = 0; i < request->all_blocks; ++i) {
            const size_t place = request->first + i;
            w->next_use[place] = next[w->blocks[place]];
        }
        for (size_t i = 0; i < request->prompt_blocks; ++i)
            next[w->blocks[request->first + i]] = r;
    }
    free(next);
}

static void drop_one(world* w) {
    for (;;) {
        const entry top = pop(w);
        node* n = &w->nodes[top.block];
        if (!n->is_cached || n->children > 0 || n->next_use != top.next_use) continue;
        n->is_cached = false;
        if (n->parent != NEVER && --w->nodes[n->parent].children == 0) push(w, n->parent);
        return;
    }
}

static uint64_t run(world* w, size_t capacity) {
    uint64_t hits = 0;
    size_t cached = 0;
    for (size_t r = 0; r < w->stream->request_count; ++r) {
        const stream_request* request = &w->stream->requests[r];
        const size_t* blocks = w->blocks + request->first;
        size_t found = 0;
        while (found < request->prompt_blocks && w->nodes[blocks[found]].is_cached)
            ++found;
        hits += found;
        for (size_t i = 0; i < request->all_blocks; ++i) {
            node* n = &w->nodes[blocks[i]];
            n->next_use = w->next_use[request->first + i];
            if (n->is_cached) continue;
            n->is_cached = true;
            n->parent = i == 0 ? NEVER : blocks[i - 1];
            if (i > 0) ++w->nodes[blocks[i - 1]].children;
            ++cached;
        }
        for (size_t i = request->all_blocks; i-- > 0;)
            if (w->nodes[blocks[i]].children == 0) push(w, blocks[i]);
        for (; cached > capacity; --cached)
            drop_one(w);
    }
    return hits;
}

uint64_t offline_hits(const stream* s, size_t capacity) {
    world w = {.stream = s};
    w.blocks = make(s->id_count, sizeof *w.blocks);
    w.next_use = make(s->id_count, sizeof *w.next_use);
    number_blocks(&w);
    find_next_uses(&w);
    w.nodes = make(w.node_count, sizeof *w.nodes);
    const uint64_t hits = run(&w, capacity);
    free(w.blocks);
    free(w.next_use);
    free(w.nodes);
    free(w.heap);
    return hits;
}
