// SPDX-License-Identifier: Apache-2.0
// Judges windows of runs.
#include "plan/churn.h"

#define FIRST_PAUSE 16384u
#define LONGEST_PAUSE (UINT64_C(1) << 40)

/// Judges the window that ended and begins the next.
static void judge(berth_churn* self, bool formless) {
    const uint32_t faults = self->bucket_faults + self->size_faults;
    const bool wasteful = formless && self->planned_bytes > 2 * self->needed_bytes;
    const bool bad = faults >= BERTH_CHURN_WINDOW / 8 * 7 || wasteful;
    const bool of_buckets = self->bucket_faults > self->size_faults && !wasteful;
    self->bad_windows = bad ? self->bad_windows + 1 : 0;
    self->bucket_windows = bad ? self->bucket_windows + of_buckets : 0;
    self->runs = self->bucket_faults = self->size_faults = 0;
    self->planned_bytes = self->needed_bytes = 0;
}

bool berth_churn_count(berth_churn* self,
                       berth_churn_fault fault,
                       uint64_t planned_bytes,
                       uint64_t needed_bytes,
                       bool formless) {
    self->bucket_faults += fault == BERTH_CHURN_BUCKET;
    self->size_faults += fault == BERTH_CHURN_SIZE;
    self->planned_bytes += (double)planned_bytes;
    self->needed_bytes += (double)needed_bytes;
    if (++self->runs < BERTH_CHURN_WINDOW) return false;
    judge(self, formless);
    return self->bad_windows >= BERTH_CHURN_WINDOWS;
}

void berth_churn_pause(berth_churn* self, uint64_t now) {
    self->pause = self->pause == 0 ? FIRST_PAUSE : self->pause * 4;
    if (self->pause > LONGEST_PAUSE) self->pause = LONGEST_PAUSE;
    self->resume_at = now + self->pause;
}

bool berth_churn_try_resume(berth_churn* self, uint64_t now) {
    if (self->resume_at == 0 || now < self->resume_at) return false;
    *self = (berth_churn){.pause = self->pause};
    return true;
}
