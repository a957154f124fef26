/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum extent { ONE, DIM, Q_WIDTH, KV_WIDTH, HIDDEN, VOCAB };
enum start { GAIN, INPUT, RESIDUAL, EMBEDDING, HEAD };

/* The tensors of the arena: first the embedding, then the layers one by one, then the rest. */
static const struct tensor_kind {
    const char *name;
    size_t pointer; /* offset of the pointer in struct weights or struct layer_weights */
    enum extent rows, columns;
    enum start start;
} before_layers[] = {
    { "embedding", offsetof(struct weights, embedding), VOCAB, DIM, EMBEDDING },
}, of_layer[] = {
    { "attn_norm", offsetof(struct layer_weights, attn_norm), ONE, DIM, GAIN },
    { "wq", offsetof(struct layer_weights, wq), Q_WIDTH, DIM, INPUT },
    { "wk", offsetof(struct layer_weights, wk), KV_WIDTH, DIM, INPUT },
    { "wv", offsetof(struct layer_weights, wv), KV_WIDTH, DIM, INPUT },
    { "wo", offsetof(struct layer_weights, wo), DIM, Q_WIDTH, RESIDUAL },
    { "ffn_norm", offsetof(struct layer_weights, ffn_norm), ONE, DIM, GAIN },
    { "w_gate", offsetof(struct layer_weights, w_gate), HIDDEN, DIM, INPUT },
    { "w_up", offsetof(struct layer_weights, w_up), HIDDEN, DIM, INPUT },
    { "w_down", offsetof(struct layer_weights, w_down), DIM, HIDDEN, RESIDUAL },
}, after_layers[] = {
    { "final_norm", offsetof(struct weights, final_norm), ONE, DIM, GAIN },
    { "head", offsetof(struct weights, head), VOCAB, DIM, HEAD },
};

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

static int extent_of(const struct model_sizes *sizes, enum extent extent)
{
    switch (extent) {
    case DIM:
        return sizes->dim;
    case Q_WIDTH:
        return sizes->q_heads * sizes->head_dim;
    case KV_WIDTH:
        return sizes->kv_heads * sizes->head_dim;
    case HIDDEN:
        return sizes->hidden;
    case VOCAB:
        return sizes->vocab;
    default:
        return 1;
    }
}

const char *model_sizes_refused(const struct model_sizes *s)
{
    const int limit = 1 << 16; /* products of two sizes stay inside an int, of three inside size_t */

    if (s->layers < 1 || s->layers > 1024)
        return "layers";
    if (s->dim < 1 || s->dim > limit / 4)
        return "dim";
    if (s->head_dim < 2 || s->head_dim > limit / 4 || s->head_dim % 2 != 0)
        return "head-dim";
    if (s->q_heads < 1 || s->q_heads > limit / s->head_dim)
        return "q-heads";
    if (s->kv_heads < 1 || s->q_heads % s->kv_heads != 0)
        return "kv-heads";
    if (s->hidden < 1 || s->hidden > limit)
        return "hidden";
    if (s->vocab < 1 || s->vocab > limit)
        return "vocab";
    return NULL;
}

int model_tensors(const struct model_sizes *sizes)
{
    return COUNT_OF(before_layers) + sizes->layers * COUNT_OF(of_layer) + COUNT_OF(after_layers);
}

/* Which kind the index-th tensor is, and of which layer (-1: none). */
static const struct tensor_kind *tensor_kind(const struct model_sizes *sizes, int index,
                                             int *layer)
{
    *layer = -1;
    if (index < COUNT_OF(before_layers))
        return &before_layers[index];
    index -= COUNT_OF(before_layers);
    if (index < sizes->layers * COUNT_OF(of_layer)) {
        *layer = index / COUNT_OF(of_layer);
        return &of_layer[index % COUNT_OF(of_layer)];
    }
    return &after_layers[index - sizes->layers * COUNT_OF(of_layer)];
}

static size_t tensor_count(const struct model_sizes *sizes, const struct tensor_kind *kind)
{
    return (size_t)extent_of(sizes, kind->rows) * (size_t)extent_of(sizes, kind->columns);
}

/* Deviation of the first values.  The embedding starts small beside what the layers add to the
 * residual stream, so that a token's context counts from the first steps on; what is added is smaller
 * by the root of the number of additions, and the head starts near uniform.  The factors are the best
 * of a couple of dozen trials of 200 steps, one seed each: a choice, not a finding. */
static float start_std(const struct model_sizes *sizes, const struct tensor_kind *kind)
{
    double fan_in = extent_of(sizes, kind->columns);

    switch (kind->start) {
    case INPUT:
    case HEAD:
        return (float)(0.5 / sqrt(fan_in));
    case RESIDUAL:
        return (float)(0.5 / sqrt(fan_in * 2.0 * sizes->layers));
    case EMBEDDING:
        return 0.05f;
    default:
        return 0.0f;
    }
}

struct model_tensor model_tensor(const struct model_sizes *sizes, int index)
{
    struct model_tensor tensor = { NULL, -1, 0, 0, 0.0f };
    const struct tensor_kind *kind;
    int layer;

    for (int i = 0; i < index; i++) {
        kind = tensor_kind(sizes, i, &layer);
        tensor.first += tensor_count(sizes, kind);
    }
    kind = tensor_kind(sizes, index, &layer);
    tensor.name = kind->name;
    tensor.layer = layer;
    tensor.count = tensor_count(sizes, kind);
    tensor.init_std = start_std(sizes, kind);
    return tensor;
}

float *floats_alloc(size_t count)
{
    float *array = NULL;

    if (count > SIZE_MAX / sizeof(float))
        return NULL;
    if (posix_memalign((void **)&array, 64, (count ? count : 1) * sizeof(float)) != 0)
        return NULL;
    memset(array, 0, (count ? count : 1) * sizeof(float));
    return array;
}

int weights_init(struct weights *w, const struct model_sizes *sizes)
{
    int tensors = model_tensors(sizes);
    struct model_tensor last = model_tensor(sizes, tensors - 1);

    memset(w, 0, sizeof(*w));
    w->count = last.first + last.count;
    w->arena = floats_alloc(w->count);
    w->layers = calloc((size_t)sizes->layers, sizeof(*w->layers));
    if (!w->arena || !w->layers) {
        weights_release(w);
        return -1;
    }
    for (int i = 0; i < tensors; i++) {
        struct model_tensor tensor = model_tensor(sizes, i);
        int layer;
        const struct tensor_kind *kind = tensor_kind(sizes, i, &layer);
        char *base = layer < 0 ? (char *)w : (char *)&w->layers[layer];
        float *first = w->arena + tensor.first;

        memcpy(base + kind->pointer, &first, sizeof(first));
    }
    return 0;
}

void weights_release(struct weights *w)
{
    free(w->arena);
    free(w->layers);
    memset(w, 0, sizeof(*w));
}

void weights_randomise(struct weights *w, const struct model_sizes *sizes, uint64_t seed)
{
    for (int i = 0; i < model_tensors(sizes); i++) {
        struct model_tensor tensor = model_tensor(sizes, i);
        uint64_t state = random_stream(seed, (uint64_t)i);

        for (size_t j = 0; j < tensor.count; j++)
            w->arena[tensor.first + j] =
                tensor.init_std > 0.0f ? tensor.init_std * (float)random_normal(&state) : 1.0f;
    }
}

void weights_perturb(struct weights *w, uint64_t seed)
{
    uint64_t state = random_stream(seed, UINT64_MAX);

    for (size_t i = 0; i < w->count; i++)
        w->arena[i] = nextafterf(w->arena[i], random_bits(&state) & 1 ? INFINITY : -INFINITY);
}
