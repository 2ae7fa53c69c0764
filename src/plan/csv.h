// SPDX-License-Identifier: Apache-2.0
// Lines of comma-separated fields, as the planner's files have them. Fields may stand in double
// quotes, doubled inside; a quoted field ends on its line. Spaces around fields, blank lines, CRLF
// and a byte order mark are passed over. Nothing read is trusted, and every error names its line.
#ifndef BERTH_PLAN_CSV_H
#define BERTH_PLAN_CSV_H

#include <stdbool.h>

#include "berth/status.h"

/// Most fields of a line.
#define BERTH_CSV_FIELDS 16u

/// A text being read. The fields lie in the text itself, which is changed: each ends with a zero
/// byte and stays as long as the text.
typedef struct berth_csv {
    const char* name; ///< borrowed: of the file, for errors
    char* at;         ///< the next line
    char* end;        ///< of the text
    uint32_t line;    ///< number of the line read last, from 1
    uint32_t count;   ///< of its fields
    char* fields[BERTH_CSV_FIELDS];
} berth_csv;

/// Which field of a line holds a column; BERTH_CSV_FIELDS: none.
typedef struct berth_csv_columns {
    uint32_t of[BERTH_CSV_FIELDS]; ///< by the caller's number of the column
    uint32_t count;                ///< of fields in the header
} berth_csv_columns;

/// Begins with `text` [size], of which the byte behind the end, text[size], belongs to it too.
void berth_csv_init(berth_csv* csv, const char* name, char* text, size_t size);

/// Reads the next line that is not blank; `*out_more` is false at the end.
/// Errors: BERTH_ERR_CORRUPT naming file and line.
BERTH_NODISCARD berth_status berth_csv_next(berth_csv* csv, bool* out_more);

/// Takes the current line as the header. `names` [count] are the columns known, of which the first
/// `required` must be there; others, and one twice, are errors.
/// Errors: BERTH_ERR_CORRUPT naming file, line and column.
BERTH_NODISCARD berth_status berth_csv_read_header(berth_csv* csv,
                                                   const char* const* names,
                                                   uint32_t count,
                                                   uint32_t required,
                                                   berth_csv_columns* out_columns);

/// Reads the next line that is not blank below the header, which must have as many fields.
/// Errors: BERTH_ERR_CORRUPT naming file and line.
BERTH_NODISCARD berth_status berth_csv_next_row(berth_csv* csv,
                                                const berth_csv_columns* columns,
                                                bool* out_more);

/// The text of a column of the current line, which has as many fields as the header; "" if the
/// column is not there.
const char* berth_csv_text(const berth_csv* csv, const berth_csv_columns* columns, uint32_t column);

/// Reads a whole number of decimal digits, at most `most`; `what` names it in errors.
/// Errors: BERTH_ERR_CORRUPT naming file, line, `what` and the text.
BERTH_NODISCARD berth_status berth_csv_number(
    const berth_csv* csv, const char* text, const char* what, uint64_t most, uint64_t* out_number);

/// Fails with the file and the number of the current line before the sentence.
berth_status berth_csv_fail(const berth_csv* csv, const char* format, ...) BERTH_PRINTF(2, 3);

/// Bytes of a text shown in errors, with the zero byte.
#define BERTH_CSV_SHOWN_BYTES 48u

/// Writes what errors show of `text`: cut, and nothing that a terminal would obey. Returns `out`.
const char* berth_csv_shown(const char* text, char out[BERTH_CSV_SHOWN_BYTES]);

#endif // BERTH_PLAN_CSV_H
