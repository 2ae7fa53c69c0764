// SPDX-License-Identifier: Apache-2.0
// Loads the module and hands it what it needs of the core.
#include "device/cuda_open.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "berth/version.h"
#include "device/native_stream.h"

#define MODULE_FILE "libberth_cuda.so"
/// From where programs are installed to where libraries are; the build says.
#ifndef BERTH_LIBRARY_FOLDER
#define BERTH_LIBRARY_FOLDER "../lib/"
#endif
#define HOW_TO_GET_ONE                                                                             \
    "build Berth with -DBERTH_CUDA=ON, and keep " MODULE_FILE                                      \
    " beside libberth.so or name it with BERTH_CUDA_MODULE"

// --- What the module is given -------------------------------------------------------------------

static berth_status fail(berth_status status, const char* text) {
    return berth_fail(status, "%s", text);
}

static berth_status fail_prefix(berth_status status, const char* text) {
    return berth_fail_prefix(status, "%s", text);
}

static void log_text(berth_log_level level, const char* text) { berth_log_line(level, "%s", text); }

static void check_failed(const char* condition, const char* file, int line) {
    berth_check_failed(condition, file, line);
}

static const berth_cuda_core core = {
    .abi_version = BERTH_CUDA_MODULE_ABI_VERSION,
    .fail = fail,
    .fail_prefix = fail_prefix,
    .host_alloc = berth_host_alloc,
    .host_calloc = berth_host_calloc,
    .host_free = berth_host_free,
    .log = log_text,
    .check_failed = check_failed,
    .note_stream = berth_native_stream_note,
};

// --- Where it is --------------------------------------------------------------------------------

/// Writes the folder of the file that holds this code, with its last slash; false if nobody knows.
static bool find_own_folder(char path[PATH_MAX]) {
    Dl_info found;
    path[0] = '\0';
    if (dladdr(&core, &found) != 0 && found.dli_fname != NULL && found.dli_fname[0] == '/' &&
        strlen(found.dli_fname) < PATH_MAX) {
        (void)snprintf(path, PATH_MAX, "%s", found.dli_fname);
    } else { // a program is called by whatever name it was started with
        const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
        path[length > 0 ? length : 0] = '\0';
    }
    char* slash = strrchr(path, '/');
    if (slash == NULL) return false;
    slash[1] = '\0';
    return true;
}

/// Writes the path of a module that lies where one belongs; false if none does.
static bool find_module(const char* folder, char path[PATH_MAX]) {
    static const char* const places[] = {
        MODULE_FILE, "../lib/" MODULE_FILE, BERTH_LIBRARY_FOLDER MODULE_FILE};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(path, PATH_MAX, "%s%s", folder, places[i]);
        if (length > 0 && length < PATH_MAX && access(path, F_OK) == 0) return true;
    }
    return false;
}

/// Where the last byte of a library is that the linker maps, as its headers say; 0: they are none.
static uint64_t mapped_end(int file) {
    ElfW(Ehdr) header;
    if (pread(file, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)))
        return 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) part;
        const off_t at = (off_t)(header.e_phoff + i * sizeof part);
        if (pread(file, &part, sizeof part, at) != (ssize_t)sizeof part) return 0;
        const uint64_t part_end = (uint64_t)part.p_offset + part.p_filesz;
        if (part.p_type == PT_LOAD && part_end > end) end = part_end;
    }
    return end;
}

/// Refuses a file that was not copied to its end: the linker would touch what is not there, which
/// ends the process. Everything else is the linker's to judge.
static berth_status check_length(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return BERTH_OK;
    struct stat seen;
    const uint64_t bytes = fstat(file, &seen) == 0 ? (uint64_t)seen.st_size : UINT64_MAX;
    const uint64_t end = mapped_end(file);
    (void)close(file);
    if (end <= bytes) return BERTH_OK;
    return berth_fail(BERTH_ERR_DEVICE,
                      "the CUDA module cannot be loaded: %s has %llu bytes of at least %llu, the "
                      "rest is missing",
                      path,
                      (unsigned long long)bytes,
                      (unsigned long long)end);
}

static const char* linker_reason(void) {
    const char* reason = dlerror();
    return reason != NULL ? reason : "no reason is given";
}

static berth_status load(const char* path, void** out_module) {
    *out_module = NULL;
    if (strchr(path, '/') != NULL) BERTH_TRY(check_length(path)); // else it is looked for
    *out_module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*out_module != NULL) return BERTH_OK;
    return berth_fail(BERTH_ERR_DEVICE, "the CUDA module cannot be loaded: %s", linker_reason());
}

static berth_status find_and_load(void** out_module) {
    char folder[PATH_MAX], path[PATH_MAX];
    const bool has_folder = find_own_folder(folder);
    if (has_folder && find_module(folder, path)) return load(path, out_module);
    *out_module = dlopen(MODULE_FILE, RTLD_NOW | RTLD_LOCAL);
    if (*out_module != NULL) return BERTH_OK;
    return berth_fail(BERTH_ERR_DEVICE,
                      "there is no CUDA module " MODULE_FILE " in %s or %s" BERTH_LIBRARY_FOLDER
                      ", and the linker finds none (%s): " HOW_TO_GET_ONE,
                      has_folder ? folder : "./",
                      has_folder ? folder : "./",
                      linker_reason());
}

// --- What it is ---------------------------------------------------------------------------------

static berth_status ask(void* loaded, const berth_cuda_module** out_module) {
    *out_module = NULL;
    void* const symbol = dlsym(loaded, BERTH_CUDA_MODULE_SYMBOL);
    if (symbol == NULL)
        return berth_fail(
            BERTH_ERR_DEVICE,
            "the CUDA module is of another version of Berth, or is none (%s): " HOW_TO_GET_ONE,
            linker_reason());
    berth_cuda_module_query query;
    memcpy(&query, &symbol, sizeof query); // ISO C converts no object pointer to a function
    const berth_cuda_module* module = query(&core);
    if (module == NULL || module->abi_version != BERTH_CUDA_MODULE_ABI_VERSION ||
        module->version != BERTH_VERSION)
        return berth_fail(
            BERTH_ERR_DEVICE,
            "the CUDA module is of another version of Berth than this one, %s: " HOW_TO_GET_ONE,
            berth_version());
    *out_module = module;
    return BERTH_OK;
}

static berth_status create(const berth_cuda_module* module,
                           const berth_host* host,
                           const berth_cuda_options* options,
                           berth_device** out_device) {
    BERTH_TRY(module->create(host, options, out_device));
    if (berth_device_ops_are_valid((*out_device)->ops)) return BERTH_OK;
    *out_device = NULL; // of whatever it is made, nothing of it can be called
    return berth_fail(BERTH_ERR_DEVICE, "the CUDA module's device is not one of this Berth");
}

berth_status berth_cuda_open(const berth_host* host,
                             const char* module,
                             const berth_cuda_options* options,
                             berth_device** out_device) {
    *out_device = NULL;
    void* loaded = NULL;
    BERTH_TRY(module != NULL ? load(module, &loaded) : find_and_load(&loaded));
    const berth_cuda_module* asked;
    const berth_status status = ask(loaded, &asked);
    if (status != BERTH_OK) {
        (void)dlclose(loaded);
        return status;
    }
    return create(asked, host, options, out_device);
}
