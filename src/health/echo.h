// SPDX-License-Identifier: Apache-2.0
// Programs repeat themselves: finds where the requests that came last came before, and tells what
// followed there. A bounded record of requests, by the sites that made them. Not thread-safe.
#ifndef BERTH_HEALTH_ECHO_H
#define BERTH_HEALTH_ECHO_H

#include <stdbool.h>
#include <stdint.h>

#define BERTH_ECHO_ENTRIES 4096u ///< requests remembered
#define BERTH_ECHO_KEYS 1024u
#define BERTH_ECHO_ORDERS 2u

/// A request for an extent.
typedef struct berth_echo_entry {
    uint32_t symbol;                    ///< of its site
    uint32_t takes;                     ///< of the pool before it, modulo 2^32
    uint32_t units;                     ///< its size in BERTH_ALIGNMENT bytes, cut
    bool is_event;                      ///< it failed or needed a move though enough was free
    uint32_t before[BERTH_ECHO_ORDERS]; ///< where the same key stood last, as a count; 0: nowhere
} berth_echo_entry;

typedef struct berth_echo {
    berth_echo_entry entries[BERTH_ECHO_ENTRIES]; ///< ring, by count
    uint32_t count;                               ///< requests so far, modulo 2^32, never 0 again
    uint32_t indexed;                             ///< of them, those that heads know
    uint32_t heads[BERTH_ECHO_ORDERS][BERTH_ECHO_KEYS]; ///< the last request (its number + 1) that
                                                        ///< ended the requests of a key
} berth_echo;

/// What followed where the last requests came before.
typedef struct berth_echo_answer {
    uint32_t matches;   ///< places found; 0: the rest is zero
    bool is_long;       ///< they agree in many requests
    double event_share; ///< of them, those that an event followed within the horizon
    double between;     ///< requests that followed, in the mean, larger than one size and at most
                        ///< as large as another
    uint64_t largest_bytes; ///< of all that followed
} berth_echo_answer;

/// Writes a request down.
void berth_echo_note(
    berth_echo* echo, uint64_t site, uint64_t size_bytes, uint64_t takes, bool is_event);

/// Looks for the last requests among those before; what followed within `horizon` takes is scaled
/// by how much larger the requests are now than they were then.
/// Cost: bounded, however many requests there were.
void berth_echo_ask(berth_echo* echo,
                    uint64_t horizon,
                    uint64_t above_bytes,
                    uint64_t limit_bytes,
                    berth_echo_answer* out_answer);

#endif // BERTH_HEALTH_ECHO_H
