// SPDX-License-Identifier: Apache-2.0
// The page of GET /: page.html, put into the program when it is built.
//
// It is one file without anything from elsewhere: a chat with the model, and its memory by owner.
#ifndef BERTH_SAMPLES_SERVE_PAGE_H
#define BERTH_SAMPLES_SERVE_PAGE_H

#include <stddef.h>

/// The page, [serve_page_bytes] of UTF-8: "text/html; charset=utf-8".
extern const unsigned char serve_page[];

/// Bytes of the page.
extern const size_t serve_page_bytes;

/// What the page may do, to be sent with it as the header Content-Security-Policy: run its own
/// script and style sheet, which are named by their hashes, and talk to this server, nothing else.
extern const char serve_page_policy[];

#endif // BERTH_SAMPLES_SERVE_PAGE_H
