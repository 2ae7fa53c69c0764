// SPDX-License-Identifier: Apache-2.0
// The words of prompts that have no content.
#include "http_load_words.h"

#include <string.h>

// clang-format off
static const char words[][12] = {
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by",
    "on", "not", "he", "his", "but", "at", "are", "this", "have", "from", "or", "had", "an",
    "they", "which", "one", "you", "were", "her", "all", "she", "there", "would", "their", "we",
    "him", "been", "has", "when", "who", "will", "more", "no", "if", "out", "so", "said", "what",
    "up", "its", "about", "into", "than", "them", "can", "only", "other", "new", "some", "could",
    "time", "these", "two", "may", "then", "do", "first", "any", "my", "now", "such", "like",
    "our", "over", "man", "me", "even", "most", "made", "after", "also", "did", "many", "before",
    "must", "through", "back", "years", "where", "much", "your", "way", "well", "down", "should",
    "because", "each", "just", "those", "people", "how", "too", "little", "state", "good", "very",
    "make", "world", "still", "own", "see", "men", "work", "long", "get", "here", "between",
    "both", "life", "being", "under", "never", "day", "same", "another", "know", "while", "last",
    "might", "us", "great", "old", "year", "off", "come", "since", "against", "go", "came",
    "right", "used", "take", "three", "states", "few", "house", "use", "during", "without",
    "again", "place", "around", "however", "home", "small", "found", "thought", "went", "say",
    "part", "once", "general", "high", "upon", "school", "every", "does", "got", "left", "number",
    "course", "war", "until", "always", "away", "something", "fact", "though", "water", "less",
    "public", "put", "think", "almost", "hand", "enough", "far", "head", "yet", "government",
    "system", "set", "better", "nothing", "night", "end", "why", "called", "find", "going",
    "look", "later", "point", "next", "program", "city", "business", "give", "group", "young",
    "days", "let", "room", "within", "side", "given", "several", "order", "face", "large",
    "second", "others", "possible", "form", "family", "early", "country", "best", "power",
    "table", "light", "white", "field", "study", "local", "able", "body", "words", "problem",
    "rest", "kind", "open", "cost", "note", "plan", "read", "sea", "tree", "road", "river",
    "bird", "land",
};
// clang-format on

_Static_assert(sizeof words / sizeof *words == HTTP_LOAD_WORDS, "as many as are promised");

const char* http_load_word(uint32_t index) { return words[index % HTTP_LOAD_WORDS]; }

berth_status http_load_write_words(const int32_t* ids,
                                   size_t count,
                                   llm_bytes* out,
                                   llm_error* error) {
    const size_t before = out->size;
    for (size_t i = 0; i < count; i++) {
        const char* word = http_load_word((uint32_t)ids[i]);
        berth_status status = i == 0 ? BERTH_OK : llm_bytes_append(out, " ", 1, error);
        if (status == BERTH_OK) status = llm_bytes_append(out, word, strlen(word), error);
        if (status == BERTH_OK) continue;
        out->size = before;
        return status;
    }
    return BERTH_OK;
}
