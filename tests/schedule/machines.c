/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/schedule/machines.h"

const struct scheme two_level_schemes[SCHEMES] = {
    {ri_build_two_level_forward, RI_K, RI_O, 0},
    {ri_build_two_level_kv_grad, RI_K, RI_DK, 1},
    {ri_build_two_level_q_grad, RI_Q, RI_DQ, 1},
};

struct machine machine_of(const int *sizes)
{
    struct machine m = {0};

    for (; sizes[m.hosts]; m.hosts++) {
        m.size[m.hosts] = sizes[m.hosts];
        m.largest = m.largest > sizes[m.hosts] ? m.largest : sizes[m.hosts];
        for (int i = 0; i < sizes[m.hosts]; i++, m.ranks++) {
            m.rank[m.hosts][i] = m.ranks;
            m.host[m.ranks] = m.hosts;
        }
    }
    return m;
}

struct machine machine_equal(int hosts, int size)
{
    int sizes[MAX_HOSTS + 1] = {0};

    for (int a = 0; a < hosts; a++)
        sizes[a] = size;
    return machine_of(sizes);
}

const int uneven_hosts[UNEVEN][5] = {
    {3, 2},    {2, 3},    {1, 4},    {4, 1},    {7, 8},       {8, 7},    {4, 2, 1}, {1, 2, 4},
    {1, 1, 6}, {6, 1, 1}, {4, 3},    {8, 4},    {5, 1, 1, 4}, {2, 1, 2}, {1, 2},    {2, 1},
    {3, 3, 2}, {2, 3, 3}, {3, 5, 7}, {1, 5, 1}, {5, 3},       {2, 7},
};

struct ranks ranks_prove(const struct scheme *scheme, const struct machine *m, struct ri_build how)
{
    struct ranks all;

    how.ranks = m->ranks;
    how.host = m->host;
    ranks_build_as(&all, scheme->build, &how);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    return all;
}
