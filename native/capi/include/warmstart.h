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
 * The functions that can fail return a ws_status, and ws_last_error() says in words what was wrong. A cache never makes its
 * host worse: where a file is damaged, full, busy or read-only, weights are packed and kept in memory as they would be without
 * it, and only ws_pack_save and ws_provider_save say why they were not saved.
 *
 * Never give ExecuTorch and this library one path: each takes the other's file for damaged, and ExecuTorch truncates what it cannot
 * read. On a local file system of Linux it does not while a process has the pack open.
 *
 * A child that a process forks may destroy and close what its parent opened, and must not use it otherwise: it opens the pack anew.
 *
 * Unless said otherwise, functions may be called by any number of threads at once, also with the same objects. No function
 * throws, and none ends the process. Each takes NULL for any pointer: what it then does is said with it.
 *
 * Copyright: the authors of warmstart. Licence: MIT or Apache-2.0.
 */

#ifndef WARMSTART_H
#define WARMSTART_H

/* Written by cbindgen. Do not change it by hand: see native/capi/cbindgen.toml. */

#include <stddef.h>
#include <stdint.h>

/* XNNPACK's; see xnnpack.h and experimental.h there. */
struct xnn_weights_cache_provider;
struct xnn_fingerprint;

/**
 * No payload is proved by its checksum. The index of a file always is.
 */
#define WS_CHECKS_NONE 0

/**
 * Each payload is proved at the first look-up that finds it.
 */
#define WS_CHECKS_FIRST_USE 1

/**
 * All payloads are proved when the pack is opened.
 */
#define WS_CHECKS_ALL 2

/**
 * Never write to the file: what is packed goes to the heap.
 */
#define WS_READ_ONLY 1

/**
 * Have the system read the whole file ahead when it is opened.
 */
#define WS_PREFETCH 2

/**
 * Use entries of an unverified model: those of a file of ExecuTorch's that was converted without saying of which model it is. If the model was changed under the same names, these are the old weights.
 */
#define WS_UNVERIFIED 4

/**
 * The XNNPACK that asks is of November 2024 or older: its xnn_weights_cache_look_up_key has no fingerprint_id.
 */
#define WS_ABI_2024 2024

/**
 * The XNNPACK that asks is newer: its xnn_weights_cache_look_up_key has a fingerprint_id.
 */
#define WS_ABI_2025 2025

/**
 * The length of a model's digest, in bytes.
 */
#define WS_DIGEST_LEN 32

/**
 * How a call went. Of those that are not WS_OK, ws_last_error() says more.
 */
typedef enum ws_status {
    /**
     * It was done.
     */
    WS_OK = 0,
    /**
     * An argument cannot be: NULL where something is needed, text that is not UTF-8, a number that has no meaning.
     */
    WS_INVALID_ARGUMENT = 1,
    /**
     * Something else than a file of packed weights is under the path. Name another.
     */
    WS_WRONG_FILE = 2,
    /**
     * Somebody else owns the file or may write to it. Packed weights are run by kernels: give the file to this user, mode 0600.
     */
    WS_UNTRUSTED = 3,
    /**
     * The system refuses the path.
     */
    WS_IO = 4,
    /**
     * It was not saved. What was packed is used as before, and the next save tries again.
     */
    WS_NOT_SAVED = 5,
    /**
     * A bug of warmstart's. Please report it with the message.
     */
    WS_INTERNAL = 6,
} ws_status;

/**
 * A file of packed weights that is open.
 */
typedef struct ws_pack ws_pack;

/**
 * XNNPACK's weights cache, over a pack.
 */
typedef struct ws_provider ws_provider;

/**
 * Data that a model is packed from, and their name.
 */
typedef struct ws_weight {
    /**
     * The name, in UTF-8.
     */
    const char *name;
    /**
     * The data before they are packed.
     */
    const void *data;
    /**
     * How many bytes they are.
     */
    size_t len;
} ws_weight;

/**
 * How a pack is opened. Fill it with zeros and set `size`; zeros are what NULL options mean.
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
     * Of WS_READ_ONLY, WS_PREFETCH and WS_UNVERIFIED.
     */
    uint32_t flags;
    /**
     * How long to wait for another writer, in milliseconds, before weights go to the heap instead.
     */
    uint64_t patience_ms;
} ws_pack_options;

/**
 * What happened with a pack since it was opened in this process. Set `size` before it is filled.
 */
typedef struct ws_pack_counts {
    /**
     * sizeof(ws_pack_counts). No more is filled.
     */
    size_t size;
    /**
     * Entries that the file has.
     */
    uint64_t entries;
    /**
     * Look-ups that found what they wanted.
     */
    uint64_t hits;
    /**
     * Look-ups that did not.
     */
    uint64_t misses;
    /**
     * Of these, look-ups of weights that are stored as another model's.
     */
    uint64_t misses_other_model;
    /**
     * Of these, look-ups of weights that are stored as packed for another micro-kernel or by another algorithm.
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
     * Bytes of them.
     */
    uint64_t heap_bytes;
    /**
     * Saves that wrote something.
     */
    uint64_t saves;
    /**
     * Entries that they added to the file.
     */
    uint64_t saved_entries;
    /**
     * Bytes that they added to the file.
     */
    uint64_t written_bytes;
    /**
     * Weights that did not go to the file, and saves that did not happen: no space, busy, read-only, damaged, cut off, unnamed.
     */
    uint64_t refusals;
    /**
     * Of the misses, look-ups of weights that are stored, and of which nothing says of which model they are. Convert the file
     * with `warmstart convert FILE --to 3 --model MODEL`, or open it with WS_UNVERIFIED.
     */
    uint64_t misses_unverified_model;
} ws_pack_counts;

/**
 * xnn_get_fingerprint, or something that answers as it does: NULL, or a fingerprint that stays.
 */
typedef const struct xnn_fingerprint *(*ws_fingerprint_fn)(uint32_t id);

/**
 * What XNNPACK asked of a provider since it was created, and what it got. Set `size` before it is filled.
 */
typedef struct ws_provider_counts {
    /**
     * sizeof(ws_provider_counts). No more is filled.
     */
    size_t size;
    /**
     * Look-ups that found what they wanted: weights that XNNPACK did not pack.
     */
    uint64_t hits;
    /**
     * Look-ups that did not.
     */
    uint64_t misses;
    /**
     * Of these: nothing is stored under the name.
     */
    uint64_t misses_absent;
    /**
     * Of these: nobody said which weight or bias it is.
     */
    uint64_t misses_unnamed;
    /**
     * Of these: stored as another model's.
     */
    uint64_t misses_other_model;
    /**
     * Of these: packed for another micro-kernel.
     */
    uint64_t misses_other_seed;
    /**
     * Of these: packed by another algorithm.
     */
    uint64_t misses_other_fingerprint;
    /**
     * Of these: nothing tells which algorithm packs it, so that it is not kept.
     */
    uint64_t misses_uncacheable;
    /**
     * Spaces that XNNPACK got to pack into.
     */
    uint64_t reservations;
    /**
     * Bytes of them.
     */
    uint64_t reserved_bytes;
    /**
     * Weights that XNNPACK packed and that can be found from then on.
     */
    uint64_t packed;
    /**
     * Bytes of them.
     */
    uint64_t packed_bytes;
    /**
     * Weights that XNNPACK packed and that go when the provider goes.
     */
    uint64_t unnamed;
    /**
     * Bytes of them.
     */
    uint64_t unnamed_bytes;
    /**
     * Calls that could not be done: no memory, or not as XNNPACK calls.
     */
    uint64_t refused;
    /**
     * Of the misses: stored, and nothing says of which model. See ws_pack_counts.
     */
    uint64_t misses_unverified_model;
} ws_provider_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Digests the file that a model is in, such as a .safetensors, .gguf or .pte file: WS_DIGEST_LEN bytes go to `digest`, BLAKE2b-256
 * of the file, as `b2sum -l 256` prints it. On Windows the path is in UTF-8.
 *
 * The digest is remembered beside the pack, in a file with `.models` behind the pack's name, so that the next start does not read
 * the model's file. That is so as long as the model's file is the same file, of the same length, whose times of modification and
 * of change are the same, on a local file system that can be written to, and once it has been left alone for two seconds and one more
 * for each 4 MiB. Elsewhere, as on network file systems, on overlayfs and on Windows, and where `pack` is NULL or in
 * memory, all of the file is read each time, at about 1 GB a second; so it is where the pack is read-only and the digest is not
 * remembered yet. Replace a model's file by renaming another one into its
 * place. Do not use this where a program writes to it through a mapping, or where the clock of the machine is set back.
 *
 * Fails with WS_INVALID_ARGUMENT, or with WS_IO if the file cannot be read.
 */
enum ws_status ws_model_digest_file(const struct ws_pack *pack,
                                    const char *path,
                                    uint8_t *digest);

/**
 * The digest of `count` weights, in any order: WS_DIGEST_LEN bytes that go to `digest`. Give all that a model is packed from:
 * weights, biases, and scales where weights are quantised. All of it is read, at about 1 GB a second, at each start:
 * ws_model_digest_file is the better choice where the model is in a file. Any NULL is WS_INVALID_ARGUMENT, but that of no weights, or of data
 * of length 0.
 */
enum ws_status ws_model_digest(const struct ws_weight *weights,
                               size_t count,
                               uint8_t *digest);

/**
 * Opens the pack under `path`, on Windows in UTF-8; the file is made when something is first packed into it. An empty path opts out: all
 * is kept in the heap, and nothing is saved. `options` may be NULL. If the pack is open in this process already, this is
 * another handle on it, and the options must be the same.
 *
 * On success `*pack` is the pack, which ws_pack_close closes; else it is NULL. Fails with WS_INVALID_ARGUMENT, WS_WRONG_FILE,
 * WS_UNTRUSTED or WS_IO. A file that is damaged, or that cannot be read or written just now, is no failure.
 *
 * A file that ExecuTorch wrote (version 2) is WS_WRONG_FILE: the command `warmstart convert FILE --to 3 --model MODEL` makes it
 * version 3. Never give ExecuTorch and this library one path: each
 * takes the other's file for damaged, and ExecuTorch truncates what it cannot read.
 */
enum ws_status ws_pack_open(const char *path,
                            const struct ws_pack_options *options,
                            struct ws_pack **pack);

/**
 * Makes what was packed since the last save what the next process finds, and waits until it is on the medium. With nothing
 * new, nothing is written. If another program cut the file off or wrote over it, nothing is saved, and what was saved in it or
 * packed into it is not found any more. NULL is WS_INVALID_ARGUMENT; else the status is WS_OK or WS_NOT_SAVED.
 */
enum ws_status ws_pack_save(const struct ws_pack *pack);

/**
 * Looks at the file again: what other processes saved meanwhile is found from now on, and what was in a file that another program
 * cut off or wrote over is not. ws_provider_begin does so too. NULL is
 * WS_INVALID_ARGUMENT.
 */
enum ws_status ws_pack_refresh(const struct ws_pack *pack);

/**
 * Has the system read all of the file ahead, and does not wait for it. NULL is WS_INVALID_ARGUMENT.
 */
enum ws_status ws_pack_prefetch(const struct ws_pack *pack);

/**
 * Gives the pages of the file back to the system until they are touched again. NULL is WS_INVALID_ARGUMENT.
 */
enum ws_status ws_pack_release(const struct ws_pack *pack);

/**
 * How many weights are saved in the file, as far as this process has looked. 0 for NULL.
 */
size_t ws_pack_len(const struct ws_pack *pack);

/**
 * What happened with the pack. Set `counts->size` to sizeof(ws_pack_counts) before. NULL is WS_INVALID_ARGUMENT.
 */
enum ws_status ws_pack_statistics(const struct ws_pack *pack,
                                  struct ws_pack_counts *counts);

/**
 * Closes a pack, without what was not saved. Providers over it stay good, and keep the file open until they are destroyed.
 * NULL does nothing. No other call may be using this handle, and none may use it again.
 */
void ws_pack_close(struct ws_pack *pack);

/**
 * Creates a weights cache over a pack, which may be closed after that. `abi` is WS_ABI_2024 or WS_ABI_2025, and must be that of
 * the XNNPACK that it is handed to.
 *
 * `model` is a digest of WS_DIGEST_LEN bytes of all that the model is packed from: only what was packed of the same model is
 * found. A model that is changed, and keeps its digest and its names, gets the old weights. NULL is WS_INVALID_ARGUMENT.
 *
 * `fingerprints` is XNNPACK's own xnn_get_fingerprint, or NULL: with it, what another version of a packing algorithm made is
 * not found, and what no fingerprint vouches for is not kept.
 *
 * On success `*provider` is the provider, which ws_provider_destroy destroys; else it is NULL. Fails with WS_INVALID_ARGUMENT.
 * One provider is for one runtime at a time: create one for each that is alive. They share the pack.
 */
enum ws_status ws_provider_create(const struct ws_pack *pack,
                                  uint32_t abi,
                                  const uint8_t *model,
                                  ws_fingerprint_fn fingerprints,
                                  struct ws_provider **provider);

/**
 * What XNNPACK is handed as its xnn_weights_cache_t: to xnn_create_runtime_v4, or when an operator is created. NULL for NULL,
 * with which XNNPACK works without a cache.
 *
 * It must live as long as the runtimes and operators that it was handed to. Never give it to xnn_finalize_weights_cache or
 * xnn_delete_weights_cache, which are for XNNPACK's own.
 */
struct xnn_weights_cache_provider *ws_provider_as_xnnpack(const struct ws_provider *provider);

/**
 * Says that the weight, or bias, at this address, as XNNPACK is given it, has this name in the model. XNNPACK knows weights by
 * their address alone, so this must be right: it holds until ws_provider_finalize or ws_provider_begin, and if the data go before that,
 * say ws_provider_forget. What has no name is packed into the heap. Any NULL is WS_INVALID_ARGUMENT.
 */
enum ws_status ws_provider_register(const struct ws_provider *provider,
                                    const void *data,
                                    const char *name);

/**
 * Forgets what lies at this address, before it is used for something else. NULL data are at no address; a NULL provider is
 * WS_INVALID_ARGUMENT.
 */
enum ws_status ws_provider_forget(const struct ws_provider *provider,
                                  const void *data);

/**
 * Begins anew, before another runtime is created with the same provider: forgets all names, so register after this, and finds
 * from now on what other processes saved. A provider that was just created has begun. NULL is WS_INVALID_ARGUMENT.
 */
enum ws_status ws_provider_begin(const struct ws_provider *provider);

/**
 * Ends packing: call it after the runtime was created and before it is set up, which XNNPACK refuses until then. Forgets all
 * names: the unpacked weights may be freed now. Begins to write what was packed to the medium, and does not wait. NULL is
 * WS_INVALID_ARGUMENT.
 */
enum ws_status ws_provider_finalize(const struct ws_provider *provider);

/**
 * Saves the pack: see ws_pack_save.
 */
enum ws_status ws_provider_save(const struct ws_provider *provider);

/**
 * What XNNPACK asked, and what it got. Set `counts->size` to sizeof(ws_provider_counts) before. NULL is WS_INVALID_ARGUMENT.
 */
enum ws_status ws_provider_statistics(const struct ws_provider *provider,
                                      struct ws_provider_counts *counts);

/**
 * Destroys a provider, once all runtimes and operators that it was handed to are deleted. NULL does nothing. No other call may be
 * using it, and none may use it again.
 */
void ws_provider_destroy(struct ws_provider *provider);

/**
 * What was wrong with the last call of this thread that failed, in words; empty if none did. Never NULL. The text is good
 * until the next call of this thread that fails.
 */
const char *ws_last_error(void);

/**
 * The version of this library, such as "0.1.0". Structures begin with their size, so that a program that was compiled with
 * another version's header works, and functions keep their meaning as long as the first number that is not 0 stays the same.
 */
const char *ws_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WARMSTART_H */
