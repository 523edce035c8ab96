/*
 * warmstart: packed weights that are mapped once and shared, for hosts of XNNPACK.
 *
 *   ws_pack *pack;
 *   ws_provider *provider;
 *   ws_pack_open("model.xpwc", NULL, &pack);
 *   ws_model_digest_file(pack, "model.safetensors", digest);
 *   ws_provider_create(pack, WS_ABI_2025, digest, xnn_get_fingerprint, &provider);
 *   ws_provider_register(provider, weight, "encoder.0.weight");        and so on, all weights and biases
 *   xnn_create_runtime_v4(subgraph, ws_provider_as_xnnpack(provider), NULL, NULL, 0, &runtime);
 *   ws_provider_finalize(provider);
 *   ws_provider_save(provider);
 *   ... run, and then ...
 *   xnn_delete_runtime(runtime);
 *   ws_provider_destroy(provider);
 *   ws_pack_close(pack);
 *
 * Functions that can fail return a ws_status; ws_last_error() returns the message. A cache never makes its host worse: if the
 * file is damaged, the disk full, or the file busy or read-only, weights are packed into memory as without a cache, and only
 * ws_pack_save and ws_provider_save report why they were not saved.
 *
 * Never give ExecuTorch and this library the same path: each takes the other's file for a damaged one, and ExecuTorch truncates a
 * file that it cannot read. On a local file system of Linux it does not truncate a pack that a process has open.
 *
 * After fork(), a child may only destroy and close the objects of its parent. To use a pack, it opens its own.
 *
 * Unless documented otherwise, functions may be called by any number of threads at once, also with the same objects. No function
 * throws, and none ends the process. Every pointer may be NULL: each function documents what it then does.
 *
 * Copyright: the authors of warmstart. Licence: MIT or Apache-2.0.
 */

#ifndef WARMSTART_H
#define WARMSTART_H

/* Written by cbindgen. Do not change it by hand: see native/capi/cbindgen.toml. */

#include <stddef.h>
#include <stdint.h>

/* Types of XNNPACK: see its xnnpack.h and experimental.h. */
struct xnn_weights_cache_provider;
struct xnn_fingerprint;

/**
 * Verifies no payload by its checksum. The index of a file is always verified.
 */
#define WS_CHECKS_NONE 0

/**
 * Verifies each payload at the first look-up that finds it.
 */
#define WS_CHECKS_FIRST_USE 1

/**
 * Verifies all payloads when the pack is opened.
 */
#define WS_CHECKS_ALL 2

/**
 * Never writes to the file: weights are packed into the heap.
 */
#define WS_READ_ONLY 1

/**
 * Asks the system to read the whole file ahead when it is opened.
 */
#define WS_PREFETCH 2

/**
 * Uses entries of an unverified model: those of an ExecuTorch file that was converted without `--model`. If the model was changed
 * under the same names, these are the old weights.
 */
#define WS_UNVERIFIED 4

/**
 * XNNPACK of November 2024 or older: its xnn_weights_cache_look_up_key has no fingerprint_id.
 */
#define WS_ABI_2024 2024

/**
 * Newer XNNPACK: its xnn_weights_cache_look_up_key has a fingerprint_id.
 */
#define WS_ABI_2025 2025

/**
 * The length of a model's digest, in bytes.
 */
#define WS_DIGEST_LEN 32

/**
 * The status of a call. For any but WS_OK, ws_last_error() returns a message.
 */
typedef enum ws_status {
    /**
     * The call succeeded.
     */
    WS_OK = 0,
    /**
     * An argument is invalid: a required pointer is NULL, text is not UTF-8, or a number is unknown.
     */
    WS_INVALID_ARGUMENT = 1,
    /**
     * The path leads to something other than a file of packed weights. Use another path.
     */
    WS_WRONG_FILE = 2,
    /**
     * Another user owns the file or may write to it. Kernels run on packed weights: give the file to this user, with mode 0600.
     */
    WS_UNTRUSTED = 3,
    /**
     * The system cannot open the path.
     */
    WS_IO = 4,
    /**
     * Weights were not saved. They remain usable in this process, and the next save tries again.
     */
    WS_NOT_SAVED = 5,
    /**
     * A bug in warmstart. Please report it with the message.
     */
    WS_INTERNAL = 6,
} ws_status;

/**
 * An open file of packed weights.
 */
typedef struct ws_pack ws_pack;

/**
 * A weights cache for XNNPACK that stores in a pack.
 */
typedef struct ws_provider ws_provider;

/**
 * A named piece of the data that a model is packed from.
 */
typedef struct ws_weight {
    /**
     * The name, in UTF-8.
     */
    const char *name;
    /**
     * The unpacked data.
     */
    const void *data;
    /**
     * The length of the data, in bytes.
     */
    size_t len;
} ws_weight;

/**
 * Options of ws_pack_open. Fill it with zeros and set `size`; zeros mean the same as NULL options.
 */
typedef struct ws_pack_options {
    /**
     * sizeof(ws_pack_options).
     */
    size_t size;
    /**
     * WS_CHECKS_NONE, WS_CHECKS_FIRST_USE or WS_CHECKS_ALL.
     */
    uint32_t checks;
    /**
     * WS_READ_ONLY, WS_PREFETCH and WS_UNVERIFIED, combined by `|`.
     */
    uint32_t flags;
    /**
     * Timeout for another writer, in milliseconds; after it, weights go to the heap instead.
     */
    uint64_t timeout_ms;
} ws_pack_options;

/**
 * Counters of a pack since it was opened in this process. Set `size` before the call that fills it.
 */
typedef struct ws_pack_counts {
    /**
     * sizeof(ws_pack_counts), which limits what is filled.
     */
    size_t size;
    /**
     * Entries in the file.
     */
    uint64_t entries;
    /**
     * Look-ups that found their weight.
     */
    uint64_t hits;
    /**
     * Look-ups that did not find it.
     */
    uint64_t misses;
    /**
     * Misses of weights that are stored only for another model.
     */
    uint64_t misses_other_model;
    /**
     * Misses of weights that are stored only as packed for another micro-kernel or by another algorithm.
     */
    uint64_t misses_other_packing;
    /**
     * Weights that were packed and can be found.
     */
    uint64_t packed;
    /**
     * Weights that went to the heap.
     */
    uint64_t heap_entries;
    /**
     * Bytes of these weights.
     */
    uint64_t heap_bytes;
    /**
     * Saves that wrote something.
     */
    uint64_t saves;
    /**
     * Entries that saves added to the file.
     */
    uint64_t saved_entries;
    /**
     * Bytes that saves added to the file.
     */
    uint64_t written_bytes;
    /**
     * Weights that were not stored in the file, and saves that failed: no space, busy, read-only, damaged, truncated, unnamed.
     */
    uint64_t refusals;
    /**
     * Misses of weights that are stored without a model. Convert the file with `warmstart convert FILE --to 3 --model MODEL`, or
     * open it with WS_UNVERIFIED.
     */
    uint64_t misses_unverified_model;
} ws_pack_counts;

/**
 * xnn_get_fingerprint, or a function with the same contract: returns NULL, or a fingerprint that stays valid.
 */
typedef const struct xnn_fingerprint *(*ws_fingerprint_fn)(uint32_t id);

/**
 * Counters of a provider since it was created. Set `size` before the call that fills it.
 */
typedef struct ws_provider_counts {
    /**
     * sizeof(ws_provider_counts), which limits what is filled.
     */
    size_t size;
    /**
     * Look-ups that found their weight, which XNNPACK then did not pack.
     */
    uint64_t hits;
    /**
     * Look-ups that did not find it.
     */
    uint64_t misses;
    /**
     * Misses: nothing is stored under the name.
     */
    uint64_t misses_absent;
    /**
     * Misses: the weight or the bias was not registered under a name.
     */
    uint64_t misses_unnamed;
    /**
     * Misses: stored only for another model.
     */
    uint64_t misses_other_model;
    /**
     * Misses: packed for another micro-kernel.
     */
    uint64_t misses_other_seed;
    /**
     * Misses: packed by another algorithm.
     */
    uint64_t misses_other_fingerprint;
    /**
     * Misses: the packing algorithm has no fingerprint, so that the weight is never stored.
     */
    uint64_t misses_uncacheable;
    /**
     * Spaces that XNNPACK reserved to pack into.
     */
    uint64_t reservations;
    /**
     * Bytes of these spaces.
     */
    uint64_t reserved_bytes;
    /**
     * Weights that XNNPACK packed and that can be found from then on.
     */
    uint64_t packed;
    /**
     * Bytes of these weights.
     */
    uint64_t packed_bytes;
    /**
     * Weights without a name that XNNPACK packed: they are dropped with the provider.
     */
    uint64_t unnamed;
    /**
     * Bytes of these weights.
     */
    uint64_t unnamed_bytes;
    /**
     * Calls that failed: out of memory, or with arguments that XNNPACK does not pass.
     */
    uint64_t refused;
    /**
     * Misses: stored without a model. See ws_pack_counts.
     */
    uint64_t misses_unverified_model;
} ws_provider_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Writes the digest of a model's file, such as a .safetensors, .gguf or .pte file, to `digest`: WS_DIGEST_LEN bytes, the BLAKE2b-256
 * of the file, as `b2sum -l 256` prints it. On Windows the path is UTF-8.
 *
 * The digest is stored beside the pack, in a file named after it with `.models` appended, so that the next start does not read the
 * model's file. It is used while the model's file is the same file with the same length, modification time and change time, on a
 * writable local file system, and only after the file was not changed for two seconds and one more for each 4 MiB. Otherwise the
 * whole file is read each time, at about 1 GB a second: on network file systems, on overlayfs, on Windows, if `pack` is NULL or in
 * memory, and if the pack is read-only and no digest is stored yet. Replace a model's file by renaming another one to its name. Do not
 * use this if a program writes to the file through a mapping, or if the machine's clock is set back.
 *
 * Fails with WS_INVALID_ARGUMENT, or with WS_IO if the file cannot be read.
 */
enum ws_status ws_model_digest_file(const struct ws_pack *pack,
                                    const char *path,
                                    uint8_t *digest);

/**
 * Writes the digest of `count` weights, in any order, to `digest`: WS_DIGEST_LEN bytes. Pass all data that the model is packed from:
 * weights, biases, and the scales of quantised weights. All data are read at each start, at about 1 GB a second:
 * ws_model_digest_file is the better choice if the model is in a file. Returns WS_INVALID_ARGUMENT for any NULL, except for no weights
 * and for data of length 0.
 */
enum ws_status ws_model_digest(const struct ws_weight *weights,
                               size_t count,
                               uint8_t *digest);

/**
 * Opens the pack at `path`, which is UTF-8 on Windows. The file is created when a weight is first packed into it. An empty path opts
 * out: all weights are kept in the heap, and nothing is saved. `options` may be NULL. If this process has the pack open already, the
 * result is another handle to it, and the options must be the same.
 *
 * On success `*pack` is the pack, to be closed by ws_pack_close; otherwise it is NULL. Fails with WS_INVALID_ARGUMENT, WS_WRONG_FILE,
 * WS_UNTRUSTED or WS_IO. A file that is damaged, or that cannot be read or written at the moment, is not a failure.
 *
 * A file that ExecuTorch wrote (version 2) is WS_WRONG_FILE: `warmstart convert FILE --to 3 --model MODEL` converts it
 * to version 3. Never give ExecuTorch and this library the same path: each takes the other's file for a damaged one, and ExecuTorch
 * truncates a file that it cannot read.
 */
enum ws_status ws_pack_open(const char *path,
                            const struct ws_pack_options *options,
                            struct ws_pack **pack);

/**
 * Saves the weights that were packed since the last save, and returns when they are on the medium; other processes find them from
 * then on. Writes nothing if nothing is new. If another program truncated or overwrote the file, nothing is saved, and its weights
 * are not found any more. Returns WS_OK or WS_NOT_SAVED, and WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_pack_save(const struct ws_pack *pack);

/**
 * Reads the file's index again: weights that other processes saved meanwhile are found from then on; those of a file that another
 * program truncated or overwrote are not. ws_provider_begin does so too. Returns WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_pack_refresh(const struct ws_pack *pack);

/**
 * Asks the system to read the whole file ahead, without waiting for it. Returns WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_pack_prefetch(const struct ws_pack *pack);

/**
 * Returns the pages of the file to the system until they are used again. Returns WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_pack_release(const struct ws_pack *pack);

/**
 * Returns the number of weights that are saved in the file, as of the last open, save or refresh. Returns 0 for NULL.
 */
size_t ws_pack_len(const struct ws_pack *pack);

/**
 * Fills `counts` with the pack's counters. Set `counts->size` to sizeof(ws_pack_counts) before. Returns WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_pack_statistics(const struct ws_pack *pack,
                                  struct ws_pack_counts *counts);

/**
 * Closes a pack without saving it. Its providers remain usable, and keep the file open until they are destroyed. Does nothing for
 * NULL. No other call may use this handle at the same time or later.
 */
void ws_pack_close(struct ws_pack *pack);

/**
 * Creates a weights cache over a pack, which may be closed after that. `abi` is WS_ABI_2024 or WS_ABI_2025, and must match
 * the XNNPACK that uses the cache.
 *
 * `model` is a digest, of WS_DIGEST_LEN bytes, of all data that the model is packed from: only weights of the same model are found.
 * A model that changes, but keeps its digest and its names, gets the old weights. NULL is WS_INVALID_ARGUMENT.
 *
 * `fingerprints` is XNNPACK's xnn_get_fingerprint, or NULL: with it, weights that another version of a packing algorithm made are
 * not found, and weights whose algorithm has no fingerprint are not stored.
 *
 * On success `*provider` is the provider, to be destroyed by ws_provider_destroy; otherwise it is NULL. Fails with
 * WS_INVALID_ARGUMENT. A provider serves one runtime at a time: create one for each live runtime. They share the pack.
 */
enum ws_status ws_provider_create(const struct ws_pack *pack,
                                  uint32_t abi,
                                  const uint8_t *model,
                                  ws_fingerprint_fn fingerprints,
                                  struct ws_provider **provider);

/**
 * Returns the provider as an xnn_weights_cache_t, for xnn_create_runtime_v4 or for the creation of an operator. Returns NULL for
 * a NULL provider, and XNNPACK then works without a cache.
 *
 * The provider must outlive the runtimes and operators that use it. Never pass it to xnn_finalize_weights_cache or
 * xnn_delete_weights_cache, which only take XNNPACK's own caches.
 */
struct xnn_weights_cache_provider *ws_provider_as_xnnpack(const struct ws_provider *provider);

/**
 * Names the weight, or the bias, at the address that XNNPACK is given. XNNPACK knows weights only by their addresses, so the name
 * must be right. It holds until ws_provider_finalize or ws_provider_begin; if the data are freed before, call ws_provider_forget.
 * A weight without a name is packed into the heap. Returns WS_INVALID_ARGUMENT for any NULL.
 */
enum ws_status ws_provider_register(const struct ws_provider *provider,
                                    const void *data,
                                    const char *name);

/**
 * Forgets the name of this address: call it before the memory is reused. Does nothing for NULL data. Returns WS_INVALID_ARGUMENT
 * for a NULL provider.
 */
enum ws_status ws_provider_forget(const struct ws_provider *provider,
                                  const void *data);

/**
 * Prepares the provider for another runtime: forgets all names, so register after this call, and finds what other processes saved
 * meanwhile. A new provider needs no such call. Returns WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_provider_begin(const struct ws_provider *provider);

/**
 * Ends packing: call it after the runtime is created and before it is set up, which XNNPACK refuses until then. Forgets all names,
 * so the unpacked weights may be freed. Starts to write the packed weights to the medium, without waiting. Returns
 * WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_provider_finalize(const struct ws_provider *provider);

/**
 * Saves the pack: see ws_pack_save.
 */
enum ws_status ws_provider_save(const struct ws_provider *provider);

/**
 * Fills `counts` with the provider's counters. Set `counts->size` to sizeof(ws_provider_counts) before. Returns
 * WS_INVALID_ARGUMENT for NULL.
 */
enum ws_status ws_provider_statistics(const struct ws_provider *provider,
                                      struct ws_provider_counts *counts);

/**
 * Destroys a provider. Delete all runtimes and operators that use it first. Does nothing for NULL. No other call may use this
 * provider at the same time or later.
 */
void ws_provider_destroy(struct ws_provider *provider);

/**
 * Returns the message of this thread's last failed call; empty if none failed, and never NULL. It is valid until the next call of
 * this thread fails.
 */
const char *ws_last_error(void);

/**
 * Returns the version of this library, such as "0.1.0". Structures begin with their size, so that a program compiled with another
 * version's header works. Functions keep their meaning as long as the first nonzero number of the version stays the same.
 */
const char *ws_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WARMSTART_H */
