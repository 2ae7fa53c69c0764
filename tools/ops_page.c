// SPDX-License-Identifier: Apache-2.0
// Prints the op page, docs/ops.md, from the headers of the ops, the op table and the words beside
// it. Fails where they do not fit: each declared op has one row of words, each row a declaration,
// each row of the op table an op that runs it.
//
// usage: ops-page INCLUDE_DIR
#include <ctype.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op_docs.h"
#include "ops/op_table.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 512, ROWS_OF_AN_OP = 8 };

/// One function as its header declares it.
typedef struct declaration {
    char name[NAME_BYTES];                          ///< without berth_
    char parameters[TEXT_BYTES];                    ///< their names, but for the context's
    char operands[BERTH_OP_MAX_INPUTS][NAME_BYTES]; ///< those that are one tensor each
    uint32_t operand_count;
} declaration;

static bool is_documented[BERTH_OP_COUNT]; // by an op that runs the row
static bool* is_declared;                  // [berth_op_doc_count]
static int failures;

static void complain(const char* format, ...) BERTH_PRINTF(1, 2);

static void complain(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("ops-page: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    failures++;
}

/// Returns the content of a file, for the caller to free; NULL if it cannot be read.
static char* read_file(const char* path) {
    FILE* file = fopen(path, "r");
    if (file == NULL) return NULL;
    char* text = NULL;
    size_t used = 0, room = 0, got = 0;
    do {
        used += got;
        if (room - used < 2) {
            char* larger = realloc(text, room = room * 2 + 4096);
            if (larger == NULL) break;
            text = larger;
        }
        got = fread(text + used, 1, room - used - 1, file);
    } while (got > 0);
    if (text != NULL) text[used] = '\0';
    fclose(file);
    return text;
}

// ---------------------------------------------------------------------------- reading the headers

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

/// Adds `text` to the string in `list` [size], after `link` if there is something already.
static void append(char* list, size_t size, const char* link, const char* text) {
    const size_t used = strlen(list);
    (void)snprintf(list + used, size - used, "%s%s", used > 0 ? link : "", text);
}

/// Takes note of the parameter whose text is [begin, end): its last word is its name.
static void read_parameter(const char* begin, const char* end, declaration* out) {
    while (end > begin && !is_name_char(end[-1]))
        end--;
    const char* word = end;
    while (word > begin && is_name_char(word[-1]))
        word--;
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%.*s", (int)(end - word), word);
    if (strcmp(name, "ctx") == 0) return;
    append(out->parameters, sizeof out->parameters, ", ", name);
    static const char one_tensor[] = "berth_tensor* ";
    const size_t length = strlen(one_tensor);
    while (isspace((unsigned char)*begin))
        begin++;
    if (begin + length == word && strncmp(begin, one_tensor, length) == 0 &&
        out->operand_count < BERTH_OP_MAX_INPUTS)
        strcpy(out->operands[out->operand_count++], name);
}

/// Reads the next declaration from `*at` on and moves that behind it; false if there is none.
static bool next_declaration(const char** at, declaration* out) {
    static const char mark[] = "\nBERTH_API ";
    const char* begin = strstr(*at, mark);
    if (begin == NULL) return false;
    const char* parenthesis = strchr(begin, '(');
    const char* end = strchr(begin, ';');
    if (parenthesis == NULL || end == NULL) return false;
    *at = end;

    *out = (declaration){0};
    const char* word = parenthesis;
    while (is_name_char(word[-1]))
        word--;
    if (strncmp(word, "berth_", 6) == 0) word += 6;
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)(parenthesis - word), word);
    for (const char* c = parenthesis + 1; c < end;) {
        const size_t length = strcspn(c, ",)");
        read_parameter(c, c + length, out);
        if (c[length] == ')') break;
        c += length + 1;
    }
    return true;
}

/// Prints the opening comment of a header, but for the licence, as a paragraph.
static void print_purpose(const char* text) {
    for (const char* line = strchr(text, '\n'); line != NULL && strncmp(line + 1, "//", 2) == 0;) {
        line += strncmp(line + 1, "// ", 3) == 0 ? 4 : 3;
        const int length = (int)strcspn(line, "\n");
        printf("%.*s\n", length, line);
        line = strchr(line, '\n');
    }
    putchar('\n');
}

// ------------------------------------------------------------------------------ describing the ops

static const berth_op_doc* find_doc(const char* name) {
    for (size_t i = 0; i < berth_op_doc_count; i++) {
        if (strcmp(berth_op_docs[i].name, name) != 0 || is_declared[i]) continue;
        is_declared[i] = true;
        return &berth_op_docs[i];
    }
    return NULL;
}

/// The first row of that name; others of the same name do more of the same.
static const berth_op_desc* find_row(const char* name) {
    const berth_op_desc* first = NULL;
    for (size_t i = 0; i < BERTH_OP_COUNT; i++) {
        if (strcmp(berth_op_table[i].name, name) != 0) continue;
        is_documented[i] = true;
        if (first == NULL) first = &berth_op_table[i];
    }
    return first;
}

/// What the flags of a row say of the storage of its result.
static void print_storage(const berth_op_desc* row, const declaration* op) {
    char places[TEXT_BYTES] = "";
    for (uint32_t i = 0; i < BERTH_OP_MAX_INPUTS; i++) {
        if ((row->flags & BERTH_OP_IN_PLACE(i)) == 0) continue;
        const bool has_name = i < op->operand_count;
        if (!has_name) complain("berth_%s has no operand %u, which its row takes", op->name, i);
        append(places, sizeof places, " or ", has_name ? op->operands[i] : "?");
    }
    if ((row->flags & BERTH_OP_UPDATES_0) != 0)
        printf("changes moved %s, or a copy of it", places);
    else
        printf("new%s%s", places[0] != '\0' ? ", or moved " : "", places);
    bool counts = false;
    for (size_t kind = 0; kind < BERTH_DEVICE_KIND_COUNT; kind++)
        counts = counts || row->counters[kind] != NULL;
    if (counts) fputs("; size depends on the data", stdout);
    if (row->scratch != NULL) fputs("; workspace", stdout);
}

/// The column on storage: from the flags if the op runs one row, else what it runs.
static void print_rows(const berth_op_doc* doc, const declaration* op) {
    char words[TEXT_BYTES];
    (void)snprintf(words, sizeof words, "%s", doc->rows);
    const berth_op_desc* rows[ROWS_OF_AN_OP];
    size_t count = 0;
    bool is_view = false;
    char* rest = words;
    for (char* word; (word = strsep(&rest, " ")) != NULL;) {
        if (strcmp(word, BERTH_OP_DOC_VIEW) == 0) {
            is_view = true;
            continue;
        }
        if (*word == '\0') continue;
        const berth_op_desc* row = find_row(word);
        if (row == NULL)
            complain("berth_%s runs '%s', which the op table has not", op->name, word);
        else if (count < ROWS_OF_AN_OP)
            rows[count++] = row;
    }
    if (is_view) fputs(count > 0 ? "a view, or " : "a view", stdout);
    if (count == 0 && !is_view) fputs("new", stdout);
    if (count == 1) print_storage(rows[0], op);
    for (size_t i = 0; count > 1 && i < count; i++)
        printf("%s%s", i == 0 ? "new; runs " : ", ", rows[i]->name);
}

/// Code for a cell of a table.
static void print_code(const char* text) {
    if (strcmp(text, "-") == 0) {
        putchar('-');
        return;
    }
    putchar('`');
    for (; *text != '\0'; text++)
        printf(*text == '|' ? "\\%c" : "%c", *text);
    putchar('`');
}

static void print_op(const declaration* op) {
    const berth_op_doc* doc = find_doc(op->name);
    if (doc == NULL) {
        complain("berth_%s is declared and has no row in op_docs.c", op->name);
        return;
    }
    printf("| `%s` | %s | %s | %s | ", op->name, op->parameters, doc->result, doc->types);
    print_rows(doc, op);
    fputs(" | ", stdout);
    print_code(doc->numpy);
    fputs(" | ", stdout);
    print_code(doc->torch);
    fputs(" |\n", stdout);
}

// ---------------------------------------------------------------------------------------- the page

static void print_opening(void) {
    // clang-format off
    static const char* const lines[] = {
        "# The ops",
        "",
        "Every op of `berth/ops.h`, header by header. `./dev docs` makes this page of the headers,",
        "the op table and the words beside it, and a test compares them. The headers say more.",
        "",
        "- **Operands** are the parameters after the context. The result is a tensor, and others",
        "  come by `out_...`, where the header says no other.",
        "- **Result** is its shape; `broadcast` is NumPy's rule.",
        "- **Types**: floats are f32, f16, bf16; integers are i64, i32, i8, u8; plain is every type",
        "  but the quantised ones. After `->` stands the result's type, if it is not the operands'.",
        "- **Storage**: `new` memory; `moved x`: the op may work in place if x came by `berth_move`",
        "  and nobody else can see its storage; `a view` shares the operand's storage; `workspace`",
        "  is memory that the op takes and gives back, planned like any other.",
        "- **NumPy** and **PyTorch** have the same under these names; `F` is `torch.nn.functional`.",
    };
    // clang-format on
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        puts(lines[i]);
}

/// What NumPy or PyTorch have a name for and Berth says with the ops above.
static void print_closing(void) {
    static const struct {
        const char* known;
        const char* here;
    } rows[] = {
        {"x.item()", "berth_tensor_read(x, &value, sizeof value)"},
        {"np.zeros_like(x)", "berth_zeros(ctx, dtype, rank, berth_tensor_dims(x))"},
        {"x * 2 + 1", "berth_affine(ctx, x, 2, 1)"},
        {"x * 2, x an integer", "berth_mul(ctx, x, berth_move(berth_scalar(ctx, 2, BERTH_I64)))"},
        {"np.square(x)", "berth_mul(ctx, x, x)"},
        {"x.std(dims)", "berth_sqrt(ctx, berth_move(berth_var(ctx, x, dims, correction, false)))"},
        {"a // b", "berth_floor(ctx, berth_move(berth_div(ctx, a, b))), for floats"},
        {"x.T", "berth_transpose(ctx, x, 0, 1)"},
        {"x.ravel(), x.flatten()", "berth_reshape(ctx, x, BERTH_SHAPE(-1))"},
        {"np.dot(a, b), torch.bmm(a, b)", "berth_matmul(ctx, a, b)"},
        {"x.masked_fill(mask, 0)",
         "berth_where(ctx, mask, berth_move(berth_scalar(ctx, 0, BERTH_F32)), x)"},
        {"np.eye(n)", "berth_tril of berth_triu of berth_ones, [n, n]"},
        {"np.linspace(a, b, n)",
         "berth_affine of berth_arange(ctx, 0, n, 1, BERTH_F32): (b - a) / (n - 1), a"},
        {"np.array_equal(a, b)", "berth_all(ctx, berth_move(berth_eq(ctx, a, b)), ...)"},
    };
    puts("\n## Said with other ops\n");
    puts("What is above is the whole list. Some that have a name elsewhere are these:\n");
    puts("| NumPy, PyTorch | Berth |\n| --- | --- |");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        printf("| `%s` | `%s` |\n", rows[i].known, rows[i].here);
}

static void print_family(const char* path) {
    char* text = read_file(path);
    if (text == NULL) {
        complain("%s cannot be read", path);
        return;
    }
    printf("\n## berth/%s\n\n", strrchr(path, '/') + 1);
    print_purpose(text);
    fputs("| Op | Operands | Result | Types | Storage | NumPy | PyTorch |\n"
          "| --- | --- | --- | --- | --- | --- | --- |\n",
          stdout);
    const char* at = text;
    declaration op;
    while (next_declaration(&at, &op))
        print_op(&op);
    free(text);
}

/// Complains of words without a function and of rows that no function runs.
static void check_all_used(void) {
    for (size_t i = 0; i < berth_op_doc_count; i++)
        if (!is_declared[i])
            complain("op_docs.c has '%s', which no header declares (again)", berth_op_docs[i].name);
    for (size_t i = 0; i < BERTH_OP_COUNT; i++)
        if (!is_documented[i] && i != BERTH_OP_NOOP) // which only benchmarks run
            complain("the op table has '%s', which no row of op_docs.c runs",
                     berth_op_table[i].name);
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fputs("usage: ops-page INCLUDE_DIR\n", stderr);
        return 2;
    }
    char pattern[TEXT_BYTES];
    (void)snprintf(pattern, sizeof pattern, "%s/berth/ops_*.h", argv[1]);
    glob_t headers;
    is_declared = calloc(berth_op_doc_count, sizeof *is_declared);
    if (is_declared == NULL || glob(pattern, 0, NULL, &headers) != 0) {
        fprintf(stderr, "ops-page: no file %s\n", pattern);
        free(is_declared);
        return 1;
    }
    print_opening();
    for (size_t i = 0; i < headers.gl_pathc; i++)
        print_family(headers.gl_pathv[i]);
    print_closing();
    check_all_used();
    globfree(&headers);
    free(is_declared);
    return failures == 0 ? 0 : 1;
}
