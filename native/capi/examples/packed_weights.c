/*
 * XNNPACK with packed weights: the first run packs them, the next finds them.
 *
 *   cc -std=c11 packed_weights.c -I<include> -L<lib> -lwarmstart -L<XNNPACK> -lXNNPACK -o packed_weights
 *   export LD_LIBRARY_PATH=<lib>:<XNNPACK>
 *   ./packed_weights /tmp/model.xpwc      prints "cold: packed 6", and a checksum of the output
 *   ./packed_weights /tmp/model.xpwc      prints "warm: 6 hits, 0 packed", and the same checksum
 *
 * Given a second file, it has its model there, as a real host does: it makes the file if there is none.
 *
 * Section "From C" of README.md has the same with the folders of this repository.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <warmstart.h>

/* A real host includes <xnnpack.h> and <experimental.h> instead of these. */
enum { xnn_status_success = 0, xnn_datatype_fp32 = 1, XNN_EXTRA_BYTES = 16 };
enum { XNN_VALUE_FLAG_EXTERNAL_INPUT = 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT = 2 };
#define XNN_INVALID_VALUE_ID UINT32_MAX
typedef struct xnn_subgraph *xnn_subgraph_t;
typedef struct xnn_runtime *xnn_runtime_t;
struct xnn_external_value {
    uint32_t id;
    void *data;
};
extern int xnn_initialize(const void *allocator);
extern const struct xnn_fingerprint *xnn_get_fingerprint(uint32_t id);
extern int xnn_create_subgraph(uint32_t external_values, uint32_t flags, xnn_subgraph_t *subgraph);
extern int xnn_define_tensor_value(xnn_subgraph_t subgraph, int datatype, size_t rank, const size_t *shape,
                                   const void *data, uint32_t external_id, uint32_t flags, uint32_t *id);
extern int xnn_define_fully_connected(xnn_subgraph_t subgraph, float min, float max, uint32_t input, uint32_t filter,
                                      uint32_t bias, uint32_t output, uint32_t flags);
extern int xnn_create_runtime_v4(xnn_subgraph_t subgraph, struct xnn_weights_cache_provider *cache, void *workspace,
                                 void *threadpool, uint32_t flags, xnn_runtime_t *runtime);
extern int xnn_delete_subgraph(xnn_subgraph_t subgraph);
extern int xnn_reshape_runtime(xnn_runtime_t runtime);
extern int xnn_setup_runtime_v2(xnn_runtime_t runtime, size_t count, const struct xnn_external_value *values);
extern int xnn_invoke_runtime(xnn_runtime_t runtime);
extern int xnn_delete_runtime(xnn_runtime_t runtime);

/* The model: fully-connected layers, each WIDTH wide. Say -DLAYERS=1184 -DWIDTH=362 for one of 620 MB. */
#ifndef LAYERS
#define LAYERS 6
#endif
#ifndef WIDTH
#define WIDTH 96
#endif
enum { ROWS = 4, LAYER = WIDTH * WIDTH + WIDTH };
static const size_t MODEL_LEN = (size_t)LAYERS * LAYER * sizeof(float) + XNN_EXTRA_BYTES;

struct layer {
    char weight_name[32], bias_name[32];
    const float *weight, *bias;
};

static struct layer layers[LAYERS];
static float input[ROWS * WIDTH + XNN_EXTRA_BYTES / sizeof(float)];
static float output[ROWS * WIDTH + XNN_EXTRA_BYTES / sizeof(float)];

static void check_xnnpack(int status, const char *what) {
    if (status != xnn_status_success) {
        fprintf(stderr, "%s: XNNPACK answers %d\n", what, status);
        exit(1);
    }
}

/* A pack or provider that cannot be had is the host's mistake. All else is counted, and works without the file. */
static void check(ws_status status, const char *what) {
    if (status != WS_OK) {
        fprintf(stderr, "%s: %s\n", what, ws_last_error());
        exit(1);
    }
}

/* Numbers from -0.1 to 0.1, the same in each run. A real host reads its model. */
static void fill(float *numbers, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = ((float)(seed >> 8) / (float)(1 << 23) - 1.0f) * 0.1f;
    }
}

static void check_system(bool is_done, const char *what) {
    if (!is_done) {
        perror(what);
        exit(1);
    }
}

/* Makes the weights of all layers, one behind the other. A real host has them in its model's file. */
static void make_model(float *numbers) {
    for (uint32_t i = 0; i < LAYERS; i++) {
        float *weight = numbers + (size_t)i * LAYER;
        fill(weight, WIDTH * WIDTH, 2 * i + 1);
        fill(weight + WIDTH * WIDTH, WIDTH, 2 * i + 2);
    }
}

/* Maps the model's file, which is made if there is none. Without a path the model is in memory. */
static void load_model(const char *path) {
    float *numbers = NULL;
    if (!path || access(path, F_OK) != 0) {
        numbers = calloc(1, MODEL_LEN);
        check_system(numbers, "model");
        make_model(numbers);
    }
    if (path && numbers) {
        FILE *made = fopen(path, "wx");
        check_system(made && fwrite(numbers, MODEL_LEN, 1, made) == 1 && fclose(made) == 0, "model");
        free(numbers);
    }
    if (path) {
        int file = open(path, O_RDONLY);
        check_system(file >= 0, "model");
        if (lseek(file, 0, SEEK_END) != (off_t)MODEL_LEN) {
            fprintf(stderr, "%s is not the model of this example: name another file\n", path);
            exit(1);
        }
        numbers = mmap(NULL, MODEL_LEN, PROT_READ, MAP_PRIVATE, file, 0);
        check_system(numbers != MAP_FAILED && close(file) == 0, "model");
    }
    for (uint32_t i = 0; i < LAYERS; i++) {
        snprintf(layers[i].weight_name, sizeof layers[i].weight_name, "layer.%" PRIu32 ".weight", i);
        snprintf(layers[i].bias_name, sizeof layers[i].bias_name, "layer.%" PRIu32 ".bias", i);
        layers[i].weight = numbers + (size_t)i * LAYER;
        layers[i].bias = layers[i].weight + WIDTH * WIDTH;
    }
    fill(input, ROWS * WIDTH, 1000);
}

/* Which model it is: the digest of its file, which is remembered beside the pack, or of all its weights. */
static void digest_model(const ws_pack *pack, const char *path, uint8_t digest[WS_DIGEST_LEN]) {
    if (path) {
        check(ws_model_digest_file(pack, path, digest), "digest");
        return;
    }
    ws_weight weights[2 * LAYERS];
    for (size_t i = 0; i < LAYERS; i++) {
        ws_weight weight = {layers[i].weight_name, layers[i].weight, WIDTH * WIDTH * sizeof(float)};
        ws_weight bias = {layers[i].bias_name, layers[i].bias, WIDTH * sizeof(float)};
        weights[2 * i] = weight;
        weights[2 * i + 1] = bias;
    }
    check(ws_model_digest(weights, 2 * LAYERS, digest), "digest");
}

static xnn_subgraph_t define_model(void) {
    xnn_subgraph_t subgraph = NULL;
    const size_t shape[2] = {ROWS, WIDTH}, square[2] = {WIDTH, WIDTH}, row[1] = {WIDTH};
    uint32_t value = 0;
    check_xnnpack(xnn_create_subgraph(2, 0, &subgraph), "subgraph");
    check_xnnpack(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, shape, NULL, 0,
                                          XNN_VALUE_FLAG_EXTERNAL_INPUT, &value),
                  "input");
    for (size_t i = 0; i < LAYERS; i++) {
        bool is_last = i + 1 == LAYERS;
        uint32_t weight = 0, bias = 0, next = 0;
        check_xnnpack(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, square, layers[i].weight,
                                              XNN_INVALID_VALUE_ID, 0, &weight),
                      "weight");
        check_xnnpack(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 1, row, layers[i].bias,
                                              XNN_INVALID_VALUE_ID, 0, &bias),
                      "bias");
        check_xnnpack(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, shape, NULL,
                                              is_last ? 1 : XNN_INVALID_VALUE_ID,
                                              is_last ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0, &next),
                      "output");
        check_xnnpack(xnn_define_fully_connected(subgraph, -1e30f, 1e30f, value, weight, bias, next, 0), "layer");
        value = next;
    }
    return subgraph;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: %s FILE [MODEL]\n", argv[0]);
        return 2;
    }
    load_model(argv[2]);
    check_xnnpack(xnn_initialize(NULL), "XNNPACK");

    /* 1. Create. An empty path would opt out: then all is packed into the heap. */
    ws_pack *pack = NULL;
    ws_provider *provider = NULL;
    uint8_t digest[WS_DIGEST_LEN];
    check(ws_pack_open(argv[1], NULL, &pack), "open");
    digest_model(pack, argv[2], digest);
    check(ws_provider_create(pack, WS_ABI_2025, digest, xnn_get_fingerprint, &provider), "provider");

    /* 2. Register all weights and biases where XNNPACK is told that they are. */
    for (size_t i = 0; i < LAYERS; i++) {
        check(ws_provider_register(provider, layers[i].weight, layers[i].weight_name), "register");
        check(ws_provider_register(provider, layers[i].bias, layers[i].bias_name), "register");
    }

    /* 3. Hand the provider to XNNPACK, which packs what is not in the file into it, and finds the rest there. */
    xnn_subgraph_t subgraph = define_model();
    xnn_runtime_t runtime = NULL;
    check_xnnpack(xnn_create_runtime_v4(subgraph, ws_provider_as_xnnpack(provider), NULL, NULL, 0, &runtime), "runtime");
    check_xnnpack(xnn_delete_subgraph(subgraph), "subgraph");

    /* 4. Finalise: XNNPACK may run from now on. The weights that were not packed are not needed any more. */
    check(ws_provider_finalize(provider), "finalize");

    /* 5. Run. */
    const struct xnn_external_value values[2] = {{0, input}, {1, output}};
    check_xnnpack(xnn_reshape_runtime(runtime), "reshape");
    check_xnnpack(xnn_setup_runtime_v2(runtime, 2, values), "setup");
    check_xnnpack(xnn_invoke_runtime(runtime), "run");

    /* 6. Save for the next process. That it was not saved, on a full disk say, is no reason to stop. */
    if (ws_provider_save(provider) != WS_OK) {
        fprintf(stderr, "%s\n", ws_last_error());
    }

    /* 7. What happened. */
    ws_provider_counts counts = {.size = sizeof counts};
    check(ws_provider_statistics(provider, &counts), "statistics");
    if (counts.hits == 0) {
        printf("cold: packed %" PRIu64 "\n", counts.packed);
    } else {
        printf("warm: %" PRIu64 " hits, %" PRIu64 " packed\n", counts.hits, counts.packed);
    }
    if (counts.misses_unverified_model > 0) {
        fprintf(stderr, "%" PRIu64 " weights are there, and nothing says of which model they are; say so with:\n"
                "warmstart convert %s --to 3 --model MODEL\n", counts.misses_unverified_model, argv[1]);
    }
    uint32_t checksum = 2166136261u;
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &output[i], sizeof bits);
        checksum = (checksum ^ bits) * 16777619u;
    }
    printf("output: %08" PRIx32 "\n", checksum);

    /* 8. Destroy: the runtime first, for it uses the provider. */
    check_xnnpack(xnn_delete_runtime(runtime), "delete");
    ws_provider_destroy(provider);
    ws_pack_close(pack);
    return 0;
}
