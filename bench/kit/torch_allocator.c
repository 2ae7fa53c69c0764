// SPDX-License-Identifier: Apache-2.0
// Blocks of a segment are linked in the order of their addresses; free ones stand in a list ordered
// by size and address. A handed out "address" is a block's number.
#include "kit/torch_allocator.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define MIB UINT64_C(1048576)
#define LEAST_BYTES UINT64_C(512)
#define SMALL_BYTES (1 * MIB)
#define SMALL_SEGMENT_BYTES (2 * MIB)
#define LARGE_SEGMENT_BYTES (20 * MIB)
#define OWN_SEGMENT_BYTES (10 * MIB) // from here on a request has a segment of its own

typedef struct block {
    uint64_t address;
    uint64_t bytes;
    uint32_t before; // in the segment; 0: none
    uint32_t after;
    bool is_free;
    bool is_small;
    bool is_hole; // addresses of an expandable range without memory; stands in no list
} block;

/// Free blocks of one kind of request.
typedef struct free_list {
    uint32_t* items;
    size_t count;
    size_t capacity;
    uint32_t first; // with expandable segments: the blocks at the range's ends
    uint32_t last;
} free_list;

struct torch_allocator {
    bool is_expandable;
    block* blocks; // [capacity]; number 0 is none
    uint32_t count;
    uint32_t capacity;
    uint32_t unused;    // a list of numbers that can be used again, through `after`
    free_list lists[2]; // large, small
    uint64_t next_address;
    uint64_t capacity_bytes;
    uint64_t reserved_bytes;
    uint64_t used_bytes; // in blocks that are out
    uint64_t live_bytes;
    uint64_t live_peak_bytes;
};

torch_allocator* torch_allocator_create(bool is_expandable) {
    torch_allocator* allocator = calloc(1, sizeof *allocator);
    if (allocator == NULL) return NULL;
    allocator->is_expandable = is_expandable;
    allocator->count = 1;
    allocator->next_address = 1;
    allocator->capacity_bytes = UINT64_MAX;
    return allocator;
}

void torch_allocator_destroy(torch_allocator* allocator) {
    if (allocator == NULL) return;
    free(allocator->blocks);
    free(allocator->lists[0].items);
    free(allocator->lists[1].items);
    free(allocator);
}

static uint32_t new_block(torch_allocator* allocator, block content) {
    uint32_t number = allocator->unused;
    if (number != 0) {
        allocator->unused = allocator->blocks[number].after;
    } else {
        if (allocator->count >= allocator->capacity) {
            const uint32_t capacity = allocator->capacity == 0 ? 256 : 2 * allocator->capacity;
            block* blocks = realloc(allocator->blocks, capacity * sizeof *blocks);
            if (blocks == NULL) return 0;
            allocator->blocks = blocks;
            allocator->capacity = capacity;
        }
        number = allocator->count++;
    }
    allocator->blocks[number] = content;
    return number;
}

static void drop_block(torch_allocator* allocator, uint32_t number) {
    allocator->blocks[number].after = allocator->unused;
    allocator->unused = number;
}

/// Index of the first free block that is not before (`bytes`, `address`) in the list's order.
static size_t find_free(const torch_allocator* allocator,
                        const free_list* list,
                        uint64_t bytes,
                        uint64_t address) {
    size_t low = 0, high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const block* b = &allocator->blocks[list->items[middle]];
        if (b->bytes < bytes || (b->bytes == bytes && b->address < address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static free_list* list_of(torch_allocator* allocator, bool is_small) {
    return &allocator->lists[is_small];
}

static bool add_free(torch_allocator* allocator, uint32_t number) {
    block* b = &allocator->blocks[number];
    free_list* list = list_of(allocator, b->is_small);
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 256 : 2 * list->capacity;
        uint32_t* items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) return false;
        list->items = items;
        list->capacity = capacity;
    }
    const size_t at = find_free(allocator, list, b->bytes, b->address);
    memmove(&list->items[at + 1], &list->items[at], (list->count - at) * sizeof *list->items);
    list->items[at] = number;
    list->count++;
    b->is_free = true;
    return true;
}

static void remove_free(torch_allocator* allocator, uint32_t number) {
    block* b = &allocator->blocks[number];
    free_list* list = list_of(allocator, b->is_small);
    const size_t at = find_free(allocator, list, b->bytes, b->address);
    list->count--;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof *list->items);
    b->is_free = false;
}

/// Joins a block with the one after it, which is gone then. Neither stands in the list.
static void join_after(torch_allocator* allocator, uint32_t number) {
    block* b = &allocator->blocks[number];
    const uint32_t gone = b->after;
    const block* next = &allocator->blocks[gone];
    b->bytes += next->bytes;
    b->after = next->after;
    if (b->after != 0) allocator->blocks[b->after].before = number;
    free_list* list = list_of(allocator, b->is_small);
    if (list->last == gone) list->last = number;
    drop_block(allocator, gone);
}

static uint64_t segment_bytes(uint64_t bytes, bool is_small) {
    if (is_small) return SMALL_SEGMENT_BYTES;
    if (bytes < OWN_SEGMENT_BYTES) return LARGE_SEGMENT_BYTES;
    return berth_round_up(bytes, SMALL_SEGMENT_BYTES);
}

/// A new segment as one block.
static uint32_t add_segment(torch_allocator* allocator, uint64_t bytes, bool is_small) {
    const block segment = {
        .address = allocator->next_address, .bytes = bytes, .is_small = is_small};
    const uint32_t number = new_block(allocator, segment);
    if (number == 0) return 0;
    allocator->next_address += bytes;
    allocator->reserved_bytes += bytes;
    return number;
}

static uint64_t step_of(bool is_small) {
    return is_small ? SMALL_SEGMENT_BYTES : LARGE_SEGMENT_BYTES;
}

static bool has_room(const torch_allocator* allocator, uint64_t bytes) {
    return bytes <= allocator->capacity_bytes - allocator->reserved_bytes;
}

static bool is_there(const torch_allocator* allocator, uint32_t number) {
    return number != 0 && allocator->blocks[number].is_free;
}

/// Gives the hole `number` memory in whole steps from its start on, so that `bytes` are there
/// together with the free block before it; 0 if the device or the hole is too small.
static uint32_t fill_hole(torch_allocator* allocator, uint32_t number, uint64_t bytes) {
    const block hole = allocator->blocks[number];
    const bool joins = is_there(allocator, hole.before);
    const bool ends = is_there(allocator, hole.after);
    const uint64_t before = joins ? allocator->blocks[hole.before].bytes : 0;
    uint64_t grown = berth_round_up(bytes - before, step_of(hole.is_small));
    if (grown > hole.bytes) grown = hole.bytes;
    const uint64_t after = ends && grown == hole.bytes ? allocator->blocks[hole.after].bytes : 0;
    if (before + grown + after < bytes || !has_room(allocator, grown)) return 0;
    if (grown < hole.bytes) {
        const block rest = {.address = hole.address + grown,
                            .bytes = hole.bytes - grown,
                            .before = number,
                            .after = hole.after,
                            .is_small = hole.is_small,
                            .is_hole = true};
        const uint32_t tail = new_block(allocator, rest);
        if (tail == 0) return 0;
        if (hole.after != 0) allocator->blocks[hole.after].before = tail;
        allocator->blocks[number].after = tail;
        allocator->blocks[number].bytes = grown;
    }
    allocator->blocks[number].is_hole = false;
    allocator->reserved_bytes += grown;
    if (after > 0) {
        remove_free(allocator, hole.after);
        join_after(allocator, number);
    }
    if (!joins) return number;
    remove_free(allocator, hole.before);
    join_after(allocator, hole.before);
    return hole.before;
}

/// Lengthens the range until its last block, if that is free, holds `bytes`; 0 if the device has
/// not as much.
static uint32_t lengthen(torch_allocator* allocator, uint64_t bytes, bool is_small) {
    free_list* list = list_of(allocator, is_small);
    const uint32_t last = list->last;
    const bool joins = is_there(allocator, last);
    const uint64_t there = joins ? allocator->blocks[last].bytes : 0;
    const uint64_t grown = berth_round_up(bytes - there, step_of(is_small));
    if (!has_room(allocator, grown)) return 0;
    if (joins) {
        remove_free(allocator, last);
        allocator->blocks[last].bytes += grown;
        allocator->reserved_bytes += grown;
        return last;
    }
    // both ranges have addresses to spare
    const uint64_t end = last != 0 ? allocator->blocks[last].address + allocator->blocks[last].bytes
                                   : (is_small ? UINT64_C(1) << 60 : 0);
    const block tail = {.address = end, .bytes = grown, .before = last, .is_small = is_small};
    const uint32_t number = new_block(allocator, tail);
    if (number == 0) return 0;
    if (last != 0)
        allocator->blocks[last].after = number;
    else
        list->first = number;
    list->last = number;
    allocator->reserved_bytes += grown;
    return number;
}

/// Memory for addresses of the range that have none, lowest first.
static uint32_t expand(torch_allocator* allocator, uint64_t bytes, bool is_small) {
    for (uint32_t at = list_of(allocator, is_small)->first; at != 0;
         at = allocator->blocks[at].after) {
        if (!allocator->blocks[at].is_hole) continue;
        const uint32_t number = fill_hole(allocator, at, bytes);
        if (number != 0) return number;
    }
    return lengthen(allocator, bytes, is_small);
}

/// Takes the memory under whole steps of the free block `number` away; returns the block that is
/// behind them.
static uint32_t empty_steps(torch_allocator* allocator, uint32_t number) {
    const block whole = allocator->blocks[number];
    const uint64_t step = step_of(whole.is_small);
    const uint64_t begin = berth_round_up(whole.address, step);
    const uint64_t end = berth_round_down(whole.address + whole.bytes, step);
    if (end <= begin) return whole.after;
    remove_free(allocator, number);
    uint32_t hole = number;
    if (begin > whole.address) {
        const block middle = {.before = number, .after = whole.after, .is_small = whole.is_small};
        hole = new_block(allocator, middle);
        if (hole == 0) return 0;
        if (whole.after != 0) allocator->blocks[whole.after].before = hole;
        allocator->blocks[number].after = hole;
        allocator->blocks[number].bytes = begin - whole.address;
        (void)add_free(allocator, number);
    }
    block* emptied = &allocator->blocks[hole];
    emptied->address = begin;
    emptied->bytes = end - begin;
    emptied->is_hole = true;
    allocator->reserved_bytes -= end - begin;
    free_list* list = list_of(allocator, whole.is_small);
    if (list->last == number) list->last = hole;
    if (end == whole.address + whole.bytes) return whole.after;
    const block rest = {.address = end,
                        .bytes = whole.address + whole.bytes - end,
                        .before = hole,
                        .after = whole.after,
                        .is_small = whole.is_small};
    const uint32_t tail = new_block(allocator, rest);
    if (tail == 0) return 0;
    if (whole.after != 0) allocator->blocks[whole.after].before = tail;
    allocator->blocks[hole].after = tail;
    if (list->last == hole) list->last = tail;
    (void)add_free(allocator, tail);
    return whole.after;
}

/// Joins neighbouring holes and forgets those at the range's end.
static void tidy_holes(torch_allocator* allocator, free_list* list) {
    for (uint32_t at = list->first; at != 0; at = allocator->blocks[at].after) {
        if (!allocator->blocks[at].is_hole) continue;
        while (allocator->blocks[at].after != 0 &&
               allocator->blocks[allocator->blocks[at].after].is_hole)
            join_after(allocator, at);
    }
    const uint32_t last = list->last;
    if (last == 0 || !allocator->blocks[last].is_hole) return;
    list->last = allocator->blocks[last].before;
    if (list->last != 0)
        allocator->blocks[list->last].after = 0;
    else
        list->first = 0;
    drop_block(allocator, last);
}

/// Gives the segments that are wholly free back.
static void release_segments(torch_allocator* allocator, free_list* list) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const uint32_t number = list->items[i];
        const block* b = &allocator->blocks[number];
        if (b->before != 0 || b->after != 0) {
            list->items[kept++] = number;
            continue;
        }
        allocator->reserved_bytes -= b->bytes;
        drop_block(allocator, number);
    }
    list->count = kept;
}

void torch_allocator_trim(torch_allocator* allocator) {
    for (int i = 0; i < 2; i++) {
        free_list* list = &allocator->lists[i];
        if (!allocator->is_expandable) {
            release_segments(allocator, list);
            continue;
        }
        for (uint32_t at = list->first; at != 0;)
            at = allocator->blocks[at].is_free ? empty_steps(allocator, at)
                                               : allocator->blocks[at].after;
        tidy_holes(allocator, list);
    }
}

/// Memory of the device.
static uint32_t find_new(torch_allocator* allocator, uint64_t bytes, bool is_small) {
    if (allocator->is_expandable) return expand(allocator, bytes, is_small);
    const uint64_t segment = segment_bytes(bytes, is_small);
    return has_room(allocator, segment) ? add_segment(allocator, segment, is_small) : 0;
}

static uint32_t find_block(torch_allocator* allocator, uint64_t bytes, bool is_small) {
    free_list* list = list_of(allocator, is_small);
    const size_t at = find_free(allocator, list, bytes, 0);
    if (at < list->count) {
        const uint32_t number = list->items[at];
        remove_free(allocator, number);
        return number;
    }
    const uint32_t number = find_new(allocator, bytes, is_small);
    if (number != 0) return number;
    torch_allocator_trim(allocator);
    return find_new(allocator, bytes, is_small);
}

/// Cuts what is left behind `bytes` off, if it is worth a block.
static bool split(torch_allocator* allocator, uint32_t number, uint64_t bytes) {
    const block whole = allocator->blocks[number];
    const uint64_t rest = whole.bytes - bytes;
    const bool is_fine = whole.is_small || allocator->is_expandable;
    if (is_fine ? rest < LEAST_BYTES : rest <= SMALL_BYTES) return true;
    const block cut = {.address = whole.address + bytes,
                       .bytes = rest,
                       .before = number,
                       .after = whole.after,
                       .is_small = whole.is_small};
    const uint32_t tail = new_block(allocator, cut);
    if (tail == 0) return false;
    if (whole.after != 0) allocator->blocks[whole.after].before = tail;
    allocator->blocks[number].bytes = bytes;
    allocator->blocks[number].after = tail;
    free_list* list = list_of(allocator, whole.is_small);
    if (list->last == number) list->last = tail;
    return add_free(allocator, tail);
}

static void* take(void* self, size_t size, size_t alignment) {
    (void)alignment; // always BERTH_ALIGNMENT
    torch_allocator* allocator = self;
    const uint64_t rounded = berth_round_up(size, LEAST_BYTES);
    const uint64_t bytes = rounded > 0 ? rounded : LEAST_BYTES;
    const uint32_t number = find_block(allocator, bytes, bytes <= SMALL_BYTES);
    if (number == 0 || !split(allocator, number, bytes)) return NULL;
    allocator->used_bytes += allocator->blocks[number].bytes;
    allocator->live_bytes += berth_round_up(size, BERTH_ALIGNMENT);
    if (allocator->live_bytes > allocator->live_peak_bytes)
        allocator->live_peak_bytes = allocator->live_bytes;
    return (void*)((uintptr_t)number * BERTH_ALIGNMENT);
}

static void give(void* self, void* data, size_t size) {
    torch_allocator* allocator = self;
    uint32_t number = (uint32_t)((uintptr_t)data / BERTH_ALIGNMENT);
    allocator->used_bytes -= allocator->blocks[number].bytes;
    allocator->live_bytes -= berth_round_up(size, BERTH_ALIGNMENT);
    const uint32_t after = allocator->blocks[number].after;
    if (after != 0 && allocator->blocks[after].is_free) {
        remove_free(allocator, after);
        join_after(allocator, number);
    }
    const uint32_t before = allocator->blocks[number].before;
    if (before != 0 && allocator->blocks[before].is_free) {
        remove_free(allocator, before);
        join_after(allocator, before);
        number = before;
    }
    // a list that cannot grow loses the block: the model then reserves more, never less
    (void)add_free(allocator, number);
}

berth_pool_bypass torch_allocator_bypass(torch_allocator* allocator) {
    return (berth_pool_bypass){.self = allocator, .alloc = take, .free = give};
}

uint64_t torch_allocator_query_reserved(const torch_allocator* allocator) {
    return allocator->reserved_bytes;
}

uint64_t torch_allocator_query_used(const torch_allocator* allocator) {
    return allocator->used_bytes;
}

void torch_allocator_set_capacity(torch_allocator* allocator, uint64_t bytes) {
    allocator->capacity_bytes = bytes;
}

uint64_t torch_allocator_take_live_peak(torch_allocator* allocator) {
    const uint64_t peak = allocator->live_peak_bytes;
    allocator->live_peak_bytes = allocator->live_bytes;
    return peak;
}
