/* SPDX-License-Identifier: Apache-2.0 */
/* Prices as they were published, of a machine with links of 1 and 10 (tests/schedule/machine.h). */
#include <math.h>
#include <stddef.h>

#include "tests/schedule/prices.h"

#define FORWARD(scheme) ri_build_##scheme##_forward, 0
#define KV_GRAD(scheme) ri_build_##scheme##_kv_grad, 1
#define Q_GRAD(scheme) ri_build_##scheme##_q_grad, 1

/* Work in program order throughout. */
static const struct price all[] = {
    {"local volume", PRICE_LOCAL, 1.5, RI_LAUNCH_HOST, 0, 1, .01},
    {"host volume", PRICE_HOST, 1.5, RI_LAUNCH_HOST, 0, 1, .01},
    {"buffers", PRICE_BUFFERS, 1.5, RI_LAUNCH_HOST, 0, 1, .01},
    {"host-driven, tc 0", PRICE_TIME, 0, RI_LAUNCH_HOST, 0, 1, .1},
    {"host-driven, tc 1.5", PRICE_TIME, 1.5, RI_LAUNCH_HOST, 0, 1, .1},
    {"host-driven, tc 6", PRICE_TIME, 6, RI_LAUNCH_HOST, 0, 1, .1},
    {"one stream, tc 1.5", PRICE_TIME, 1.5, RI_LAUNCH_ONE, 0, 1, .1},
    {"lanes, tc 1.5", PRICE_TIME, 1.5, RI_LAUNCH_LANES, 0, 1, .1},
    {"shared NIC, tc 1.5", PRICE_TIME, 1.5, RI_LAUNCH_HOST, 1, 1, .1},
    {0},
};

static const struct price turns[] = {
    {"one stream, tc 0", PRICE_TIME, 0, RI_LAUNCH_ONE, 0, 1, .1},
    {"lanes, tc 0", PRICE_TIME, 0, RI_LAUNCH_LANES, 0, 1, .1},
    {"one stream, tc 3", PRICE_TIME, 3, RI_LAUNCH_ONE, 0, 1, .1},
    {"lanes, tc 3", PRICE_TIME, 3, RI_LAUNCH_LANES, 0, 1, .1},
    {0},
};

static const struct price turns_of_4[] = {
    {"one stream, tc 4", PRICE_TIME, 4, RI_LAUNCH_ONE, 0, 1, .1},
    {"lanes, tc 4", PRICE_TIME, 4, RI_LAUNCH_LANES, 0, 1, .1},
    {0},
};

static const struct price landings[] = {
    {"host-driven, tc 0", PRICE_TIME, 0, RI_LAUNCH_HOST, 0, 1, .1},
    {"host-driven, tc 2", PRICE_TIME, 2, RI_LAUNCH_HOST, 0, 1, .1},
    {0},
};

static const struct price uneven[] = {
    {"host-driven, tc 0", PRICE_TIME, 0, RI_LAUNCH_HOST, 0, 1, .1},
    {"host-driven, tc 4", PRICE_TIME, 4, RI_LAUNCH_HOST, 0, 1, .1},
    {"shared NIC, tc 0", PRICE_TIME, 0, RI_LAUNCH_HOST, 1, 1, .1},
    {0},
};

static const struct price bytes[] = {
    {"local volume", PRICE_LOCAL, 0, RI_LAUNCH_HOST, 0, 1, .01},
    {"host volume", PRICE_HOST, 0, RI_LAUNCH_HOST, 0, 1, .01},
    {0},
};

/* ---- why some of ours are other numbers ---- */

#define AT_HOME "the own contribution stays at home: a hop less"
#define HOST_HOME "what the owner's host adds goes home at once: less across, one hop more on hosts"
#define WALKS "one visitor walks while the other is on its way"
#define PIECES "pieces of a block enter on different ranks"
#define IN_STEP "receives one turn ahead keep the pairs in step, so none collide"
#define COLLIDE "another one of those that collide at a receiver goes first"

static const struct price_reason ring_q_2x4[] = {
    {"local", 14, AT_HOME},
    {"host-driven", 141.4, AT_HOME},
    {"host", 14, AT_HOME},
    {"one stream", 141.4, AT_HOME},
    {"lanes", 141.4, AT_HOME},
    {"shared NIC", 141.4, AT_HOME},
    {0},
};
static const struct price_reason two_level_kv_2x4[] = {
    {"host-driven, tc 0", 43.36, HOST_HOME},
    {"host-driven, tc 1.5", 43.36, HOST_HOME},
    {"host volume", 3, HOST_HOME},
    {"one stream", 50.94, HOST_HOME},
    {"lanes", 43.36, HOST_HOME},
    {"shared NIC", 132.94, HOST_HOME},
    {0},
};
static const struct price_reason two_level_q_2x4[] = {
    {"host-driven, tc 0", 28.36, HOST_HOME},
    {"host-driven, tc 1.5", 28.84, HOST_HOME},
    {"host volume", 2, HOST_HOME},
    {"one stream", 34.9, HOST_HOME},
    {"lanes", 28.84, HOST_HOME},
    {"shared NIC", 88.9, HOST_HOME},
    {0},
};
static const struct price_reason two_level_q_2x4_chunked[] = {
    {"host-driven, tc 0", 28.56, HOST_HOME},
    {"host-driven, tc 1.5", 29.04, HOST_HOME},
    {"host volume", 2, HOST_HOME},
    {"one stream", 30.54, HOST_HOME},
    {"lanes", 29.04, HOST_HOME},
    {"shared NIC", 88.74, HOST_HOME},
    {0},
};
static const struct price_reason two_level_kv_4x8[] = {
    {"host-driven, tc 0", 107.24, HOST_HOME},
    {"host-driven, tc 1.5", 108.2, HOST_HOME},
    {"host volume", 9, HOST_HOME},
    {"one stream", 178.22, HOST_HOME},
    {"lanes", 109.16, HOST_HOME},
    {"shared NIC", 726.82, HOST_HOME},
    {0},
};
static const struct price_reason two_level_q_4x8[] = {
    {"host-driven, tc 0", 68.24, HOST_HOME},
    {"host-driven, tc 1.5", 71.12, HOST_HOME},
    {"host volume", 6, HOST_HOME},
    {"one stream", 120.18, HOST_HOME},
    {"lanes", 72.08, HOST_HOME},
    {"shared NIC", 485.82, HOST_HOME},
    {0},
};
static const struct price_reason two_level_q_4x8_chunked[] = {
    {"host-driven, tc 0", 70.26, HOST_HOME},
    {"host-driven, tc 1.5", 74.64, HOST_HOME},
    {"host volume", 6, HOST_HOME},
    {"one stream", 78.33, HOST_HOME},
    {"lanes", 76.71, HOST_HOME},
    {"shared NIC", 509.82, HOST_HOME},
    {0},
};
static const struct price_reason turns_q[] = {{"one stream", 168.84, HOST_HOME}, {0}};
static const struct price_reason direct_2x4[] = {
    {"host-driven, tc 1.5", 7 * 10.1 + 1.5, IN_STEP},
    {"host-driven, tc 6", 7 * 10.1 + 6, IN_STEP},
    {0},
};
static const struct price_reason direct_4x8[] = {
    {"host-driven, tc 0", 31 * 10.1, IN_STEP},
    {"host-driven, tc 1.5", 31 * 10.1 + 1.5, IN_STEP},
    {"host-driven, tc 6", 31 * 10.1 + 6, IN_STEP},
    {"shared NIC", 2082.1, COLLIDE},
    {0},
};
static const struct price_reason direct_kv_2x4[] = {
    {"host-driven, tc 0", 181.2, COLLIDE},
    {"host-driven, tc 1.5", 182.6, COLLIDE},
    {"host-driven, tc 6", 187.1, COLLIDE},
    {0},
};
static const struct price_reason direct_kv_4x8[] = {
    {"host-driven, tc 0", 895.7, COLLIDE},
    {"host-driven, tc 1.5", 897.2, COLLIDE},
    {"host-driven, tc 6", 984.4, COLLIDE},
    {"shared NIC", 5908.6, COLLIDE},
    {0},
};
static const struct price_reason uneven_forward[] = {
    {"host-driven, tc 0", 2 * 10.1 + 1.02, WALKS},
    {"host-driven, tc 4", 2 * 10.1 + 2 * 4, WALKS},
    {"shared NIC", 3 * 10.1 + 1.02, WALKS},
    {0},
};
static const struct price_reason uneven_pieces[] = {
    {"host-driven, tc 0", 3 * 5.1 + .52, PIECES},
    {"host-driven, tc 4", 3 * 5.1 + 2 * 4, PIECES},
    {0},
};
static const struct price_reason uneven_ring_kv[] = {
    {"host-driven", 4 * 10.1 + 4 * 20.1, AT_HOME},
    {"shared NIC", 4 * 10.1 + 4 * 20.1, AT_HOME},
    {0},
};
static const struct price_reason uneven_ring_q[] = {
    {"host-driven", 8 * 10.1, AT_HOME}, {"shared NIC", 8 * 10.1, AT_HOME}, {0}};
static const struct price_reason uneven_kv[] = {
    {"host-driven, tc 0", 69.5, HOST_HOME},
    {"host-driven, tc 4", 73.46, HOST_HOME},
    {"shared NIC", 97.68, HOST_HOME},
    {0},
};
static const struct price_reason uneven_kv_pieces[] = {
    {"host-driven, tc 0", 50.2, HOST_HOME}, {"host-driven, tc 4", 55.18, HOST_HOME}, {0}};
static const struct price_reason uneven_q[] = {
    {"host-driven, tc 0", 45.5, HOST_HOME},
    {"host-driven, tc 4", 51.46, HOST_HOME},
    {"shared NIC", 64.68, HOST_HOME},
    {0},
};
static const struct price_reason uneven_q_pieces[] = {
    {"host-driven, tc 0", 33.2, HOST_HOME}, {"host-driven, tc 4", 39.12, HOST_HOME}, {0}};
static const struct price_reason forward_4_3[] = {{"host-driven", 2 * 10.1 + 2 * 1.02, WALKS}, {0}};
static const struct price_reason pieces_4_3[] = {{"host-driven", 17.38, WALKS}, {0}};
static const struct price_reason forward_8_4[] = {{"host-driven", 2 * 10.1 + 5 * 1.02, WALKS}, {0}};
static const struct price_reason ring_kv_4_2_1[] = {{"host-driven", 6 * 10.1 + 6 * 20.1, AT_HOME},
                                                    {0}};
static const struct price_reason kv_4_2_1[] = {{"host-driven", 163.12, HOST_HOME}, {0}};
static const struct price_reason kv_8_1[] = {{"host volume", 9. / 8, HOST_HOME}, {0}};
static const struct price_reason q_8_1[] = {{"host volume", 6, HOST_HOME}, {0}};

const struct price_row price_rows[] = {
    {"2x4",
     "ring forward",
     FORWARD(ring),
     {0},
     all,
     {7, 7, 2, 70.7, 72.2, 76.7, 72.2, 72.2, 72.2},
     NULL,
     0},
    {"2x4",
     "two-level forward",
     FORWARD(two_level),
     {0},
     all,
     {6, 1, 3, 13.2, 16.1, 48, 21.6, 16.1, 46.4},
     NULL,
     0},
    {"2x4",
     "two-level chunked",
     FORWARD(two_level),
     {.chunked = 1},
     all,
     {6, 1, 3, 13.4, 16.3, 48, 17.8, 16.3, 47.2},
     NULL,
     0},
    {"2x4",
     "direct forward",
     FORWARD(direct),
     {0},
     all,
     {3, 4, 2, 71.7, 78.2, 98.8, 72.2, 72.2, 163.1},
     direct_2x4,
     0},
    {"2x4",
     "ring KV-grad",
     KV_GRAD(ring),
     {0},
     all,
     {21, 21, 8, 211.4, 211.4, 211.4, 211.4, 211.4, 211.4},
     NULL,
     0},
    {"2x4",
     "ring Q-grad",
     Q_GRAD(ring),
     {0},
     all,
     {15, 15, 5, 151.5, 151.5, 151.5, 151.5, 151.5, 151.5},
     ring_q_2x4,
     0},
    {"2x4",
     "two-level KV-grad",
     KV_GRAD(two_level),
     {0},
     all,
     {20, 5, 13, 52.3, 52.3, 70.1, 70.6, 52.3, 203.2},
     two_level_kv_2x4,
     0},
    {"2x4",
     "two-level Q-grad",
     Q_GRAD(two_level),
     {0},
     all,
     {13, 3, 8, 31.3, 31.3, 59.1, 44.5, 31.3, 122.2},
     two_level_q_2x4,
     0},
    {"2x4",
     "two-level Q-grad chunked",
     Q_GRAD(two_level),
     {.chunked = 1},
     all,
     {13, 3, 8, 31.7, 31.7, 59.1, 34.7, 31.7, 123.8},
     two_level_q_2x4_chunked,
     0},
    {"2x4",
     "direct KV-grad",
     KV_GRAD(direct),
     {0},
     all,
     {9, 12, 8, 191.2, 192.7, 201.3, 211.4, 211.4, 483.2},
     direct_kv_2x4,
     0},

    {"4x8",
     "ring forward",
     FORWARD(ring),
     {0},
     all,
     {31, 31, 2, 313.1, 314.6, 319.1, 314.6, 314.6, 314.6},
     NULL,
     0},
    {"4x8",
     "two-level forward",
     FORWARD(two_level),
     {0},
     all,
     {28, 3, 4, 37.4, 48, 192, 72.9, 48, 254.4},
     NULL,
     0},
    {"4x8",
     "two-level chunked",
     FORWARD(two_level),
     {.chunked = 1},
     all,
     {28, 3, 4, 39.2, 48, 192, 48.5, 48, 268.8},
     NULL,
     0},
    {"4x8",
     "direct forward",
     FORWARD(direct),
     {0},
     all,
     {7, 24, 2, 353.5, 377.1, 411.6, 314.6, 314.6, 1950.8},
     direct_4x8,
     0},
    {"4x8",
     "ring KV-grad",
     KV_GRAD(ring),
     {0},
     all,
     {93, 93, 8, 936.2, 936.2, 936.2, 936.2, 936.2, 936.2},
     NULL,
     0},
    {"4x8",
     "ring Q-grad",
     Q_GRAD(ring),
     {0},
     all,
     {63, 63, 5, 636.3, 636.3, 636.3, 636.3, 636.3, 636.3},
     NULL,
     0},
    {"4x8",
     "two-level KV-grad",
     KV_GRAD(two_level),
     {0},
     all,
     {86, 11, 14, 113.8, 114.4, 214.1, 197.8, 115.9, 887.6},
     two_level_kv_4x8,
     0},
    {"4x8",
     "two-level Q-grad",
     Q_GRAD(two_level),
     {0},
     all,
     {57, 7, 9, 73.9, 76.3, 203.1, 129.8, 76.9, 566.6},
     two_level_q_4x8,
     0},
    {"4x8",
     "two-level Q-grad chunked",
     Q_GRAD(two_level),
     {.chunked = 1},
     all,
     {57, 7, 9, 77.4, 80.3, 203.1, 84.4, 82.9, 595.4},
     two_level_q_4x8_chunked,
     0},
    {"4x8",
     "direct KV-grad",
     KV_GRAD(direct),
     {0},
     all,
     {21, 72, 8, 987.4, 988.4, 1018, 936.2, 936.2, 5838.3},
     direct_kv_4x8,
     0},

    {"2x4", "turns: own", FORWARD(two_level), {0}, turns, {16.2, 13.2, 32.1, 24}, NULL, 0},
    {"2x4",
     "turns: chunked",
     FORWARD(two_level),
     {.chunked = 1},
     turns,
     {13.4, 13.4, 25.3, 24},
     NULL,
     0},
    {"4x8", "turns: own", FORWARD(two_level), {0}, turns, {58.9, 37.4, 110.4, 96}, NULL, 0},
    {"4x8",
     "turns: chunked",
     FORWARD(two_level),
     {.chunked = 1},
     turns,
     {39.2, 39.2, 96, 96},
     NULL,
     0},
    {"4x8", "turns: Q-grad own", Q_GRAD(two_level), {0}, turns_of_4, {181.8, 139.1}, turns_q, 0},
    {"4x8",
     "turns: Q-grad chunked",
     Q_GRAD(two_level),
     {.chunked = 1},
     turns_of_4,
     {139.1, 139.1},
     NULL,
     0},

    {"4x4", "4 landing slots", FORWARD(two_level), {.landing = 4}, landings, {33.4, 38.3}, NULL, 0},
    {"4x4", "3 landing slots", FORWARD(two_level), {.landing = 3}, landings, {37.4, 46.3}, NULL, 0},
    {"4x8", "4 landing slots", FORWARD(two_level), {.landing = 4}, landings, {37.4, NAN}, NULL, 0},
    {"4x8", "3 landing slots", FORWARD(two_level), {.landing = 3}, landings, {49.7, NAN}, NULL, 0},

    {"3+2", "ring forward", FORWARD(ring), {0}, uneven, {40.4, 44.4, 40.4}, NULL, 0},
    {"3+2",
     "two-level forward",
     FORWARD(two_level),
     {0},
     uneven,
     {22.2, 32.2, 32.3},
     uneven_forward,
     0},
    {"3+2",
     "forward, 2 pieces",
     FORWARD(two_level),
     {.pieces = 2},
     uneven,
     {17.4, 27.3, NAN},
     uneven_pieces,
     0},
    {"3+2", "ring KV-grad", KV_GRAD(ring), {0}, uneven, {140.9, 140.9, 140.9}, uneven_ring_kv, 0},
    {"3+2",
     "two-level KV-grad",
     KV_GRAD(two_level),
     {0},
     uneven,
     {92.5, 98.4, 132.8},
     uneven_kv,
     0},
    {"3+2",
     "KV-grad, 2 pieces",
     KV_GRAD(two_level),
     {.pieces = 2},
     uneven,
     {77.9, 81.9, NAN},
     uneven_kv_pieces,
     0},
    {"3+2", "ring Q-grad", Q_GRAD(ring), {0}, uneven, {90.9, 90.9, 90.9}, uneven_ring_q, 0},
    {"3+2", "two-level Q-grad", Q_GRAD(two_level), {0}, uneven, {51.5, 57.4, 81.8}, uneven_q, 0},
    {"3+2",
     "Q-grad, 2 pieces",
     Q_GRAD(two_level),
     {.pieces = 2},
     uneven,
     {46.9, 50.9, NAN},
     uneven_q_pieces,
     0},

    {"4+3", "ring forward", FORWARD(ring), {0}, uneven, {60.6, NAN, NAN}, NULL, 0},
    {"4+3", "two-level forward", FORWARD(two_level), {0}, uneven, {24.3, NAN, NAN}, forward_4_3, 0},
    {"4+3",
     "forward, 2 pieces",
     FORWARD(two_level),
     {.pieces = 2},
     uneven,
     {18.4, NAN, NAN},
     pieces_4_3,
     0},
    {"8+4", "ring forward", FORWARD(ring), {0}, uneven, {111.1, NAN, NAN}, NULL, 0},
    {"8+4", "two-level forward", FORWARD(two_level), {0}, uneven, {26.3, NAN, NAN}, forward_8_4, 0},
    {"4+2+1", "ring forward", FORWARD(ring), {0}, uneven, {60.6, NAN, NAN}, NULL, 0},
    {"4+2+1", "two-level forward", FORWARD(two_level), {0}, uneven, {60.6, NAN, NAN}, NULL, 0},
    {"4+2+1", "ring KV-grad", KV_GRAD(ring), {0}, uneven, {201, NAN, NAN}, ring_kv_4_2_1, 0},
    {"4+2+1", "two-level KV-grad", KV_GRAD(two_level), {0}, uneven, {264, NAN, NAN}, kv_4_2_1, 0},

    /* 8 query heads share a key head: K,V and their gradients weigh an eighth. */
    {"4x8",
     "8:1 two-level KV-grad",
     KV_GRAD(two_level),
     {0},
     bytes,
     {86. / 8, 11. / 8},
     kv_8_1,
     .125},
    {"4x8", "8:1 two-level Q-grad", Q_GRAD(two_level), {0}, bytes, {57, 7}, q_8_1, .125},
    {0},
};
