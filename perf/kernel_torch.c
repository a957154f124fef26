/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_torch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

/* Reads a line of numbers, then q, k, v and our o as fp32 [heads][tokens][dim]; says which attention it calls and by
 * how much its o differs from ours; then answers each line with the seconds of a run. */
static const char program[] =
    "import sys, time, math\n"
    "import numpy, torch\n"
    "tokens, heads, kv_heads, qk, v_dim, causal, threads = map(int, sys.stdin.buffer.readline().split())\n"
    "torch.set_num_threads(threads)\n"
    "torch.set_grad_enabled(False)\n"
    "def take(h, d):\n"
    "    return torch.from_numpy(numpy.frombuffer(sys.stdin.buffer.read(4 * h * tokens * d), dtype=numpy.float32)\n"
    "                            .copy().reshape(1, h, tokens, d))\n"
    "q, k, v, ours = take(heads, qk), take(kv_heads, qk), take(kv_heads, v_dim), take(heads, v_dim)\n"
    "k = k.repeat_interleave(heads // kv_heads, 1)\n"
    "v = v.repeat_interleave(heads // kv_heads, 1)\n"
    "f = torch.nn.functional\n"
    "mask = torch.ones(tokens, tokens).tril() == 0 if causal else None\n"
    "def plain():\n"
    "    s = torch.matmul(q, k.transpose(-2, -1)) * (1 / math.sqrt(qk))\n"
    "    if causal:\n"
    "        s.masked_fill_(mask, float('-inf'))\n"
    "    return torch.matmul(torch.softmax(s, -1), v)\n"
    "def fused():\n"
    "    return f.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))\n"
    "def fused_old():\n"
    "    return f._scaled_dot_product_attention(q, k, v, None, 0.0, False, bool(causal))[0]\n"
    "name, call = 'softmax(q k) v', plain\n"
    "for other, g in (('scaled_dot_product_attention', fused), ('_scaled_dot_product_attention', fused_old)):\n"
    "    if hasattr(f, other):\n"
    "        name, call = other, g\n"
    "        break\n"
    "print('torch', torch.__version__, name.replace(' ', '_'), float((call() - ours).abs().max()), flush=True)\n"
    "for line in sys.stdin.buffer:\n"
    "    begin = time.perf_counter()\n"
    "    call()\n"
    "    print(time.perf_counter() - begin, flush=True)\n";

enum { ANSWER = 256, TIMEOUT_MS = 120000 };

struct kernel_torch {
    pid_t pid;
    int to, from; /* descriptors; -1: none */
    int timeout_ms;
};

/* ---- the process ---- */

static int start(struct kernel_torch *torch, const char *python)
{
    int in[2], out[2];

    if (pipe(in))
        return -1;
    if (pipe(out)) {
        close(in[0]);
        close(in[1]);
        return -1;
    }
    torch->pid = fork();
    if (torch->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int i = 0; i < 2; i++) {
            close(in[i]);
            close(out[i]);
        }
        execlp(python, python, "-c", program, (char *)NULL);
        fprintf(stderr, "rondo_kernel: --python %s cannot be run: %s\n", python, strerror(errno));
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    torch->from = out[0];
    torch->to = in[1];
    return torch->pid > 0 && fcntl(torch->to, F_SETFL, O_NONBLOCK) == 0 ? 0 : -1;
}

/* 0: ready for these events; -1: not before end_us, as stderr says. */
static int await(const struct kernel_torch *torch, int descriptor, short events, double end_us)
{
    for (;;) {
        struct pollfd ready = {.fd = descriptor, .events = events};
        double left_us = end_us - perf_now_us();
        int count = left_us > 0 ? poll(&ready, 1, (int)(left_us / 1e3) + 1) : 0;

        if (count > 0)
            return 0;
        if (count == 0 || errno != EINTR) {
            fprintf(stderr, "rondo_kernel: --peer torch: no answer for %d ms\n", torch->timeout_ms);
            return -1;
        }
    }
}

static int has_ended(void)
{
    fprintf(stderr, "rondo_kernel: --peer torch: the interpreter has ended; is python3-torch installed?\n");
    return -1;
}

/* 0, or -1: it died, or does not read. */
static int tell(const struct kernel_torch *torch, const void *data, size_t bytes)
{
    double end_us = perf_now_us() + torch->timeout_ms * 1e3;
    const char *from = data;

    while (bytes) {
        ssize_t sent = write(torch->to, from, bytes);

        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return has_ended();
        if (sent < 0 && await(torch, torch->to, POLLOUT, end_us))
            return -1;
        from += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

/* A line of the answer.  0, or -1: it died, or took too long. */
static int answer(const struct kernel_torch *torch, char line[ANSWER])
{
    double end_us = perf_now_us() + torch->timeout_ms * 1e3;
    size_t used = 0;

    while (used + 1 < ANSWER) {
        if (await(torch, torch->from, POLLIN, end_us))
            return -1;
        if (read(torch->from, line + used, 1) != 1)
            return has_ended();
        if (line[used++] == '\n')
            break;
    }
    line[used] = '\0';
    return 0;
}

/* ---- the problem ---- */

/* [heads][tokens][dim] */
static int send_tensor(const struct kernel_torch *torch, const rondo_tensor_t *x, int64_t tokens, int heads, int dim)
{
    int err = 0;

    for (int h = 0; h < heads; h++)
        for (int64_t t = 0; t < tokens && !err; t++)
            err = tell(torch, call_at(x, 0, t, h), (size_t)dim * sizeof(float));
    return err;
}

static int send_problem(const struct kernel_torch *torch, const struct kernel_torch_problem *p)
{
    const struct kernel_call *call = p->call;
    const rondo_kernel_shape_t *s = &call->shape;
    char line[ANSWER];
    int length = snprintf(line, sizeof(line), "%lld %d %d %d %d %d %d\n", (long long)call->q_tokens, s->q_heads,
                          s->kv_heads, s->qk_dim, s->v_dim, p->causal, p->threads);

    return tell(torch, line, (size_t)length) ||
                   send_tensor(torch, &call->q, call->q_tokens, s->q_heads, s->qk_dim) ||
                   send_tensor(torch, &call->k, call->k_tokens, s->kv_heads, s->qk_dim) ||
                   send_tensor(torch, &call->v, call->k_tokens, s->kv_heads, s->v_dim) ||
                   send_tensor(torch, &call->o, call->q_tokens, s->q_heads, s->v_dim)
               ? -1
               : 0;
}

/* Says which attention it is, once its o equals ours. */
static int agree(struct kernel_torch *torch)
{
    char line[ANSWER], version[64], name[128];
    double off;

    if (answer(torch, line))
        return -1;
    if (sscanf(line, "torch %63s %127s %lf", version, name, &off) != 3 || !(off <= 1e-4)) {
        fprintf(stderr, "rondo_kernel: --peer torch: its output is not ours: %s", line);
        return -1;
    }
    printf("# torch: %s %s, differs from ours by %.1e at most\n", version, name, off);
    return 0;
}

struct kernel_torch *kernel_torch_start(const struct kernel_torch_problem *problem)
{
    struct kernel_torch *torch = calloc(1, sizeof(*torch));

    if (!torch)
        return NULL;
    signal(SIGPIPE, SIG_IGN); /* of an interpreter that has ended */
    torch->to = torch->from = -1;
    torch->timeout_ms = problem->timeout_ms ? problem->timeout_ms : TIMEOUT_MS;
    if (start(torch, problem->python)) {
        perror("rondo_kernel: --peer torch");
        kernel_torch_stop(torch);
        return NULL;
    }
    if (send_problem(torch, problem) || agree(torch)) {
        kernel_torch_stop(torch);
        return NULL;
    }
    return torch;
}

double kernel_torch_time(struct kernel_torch *torch)
{
    char line[ANSWER];

    return tell(torch, "run\n", 4) || answer(torch, line) ? -1 : strtod(line, NULL);
}

void kernel_torch_stop(struct kernel_torch *torch)
{
    if (!torch)
        return;
    if (torch->to >= 0)
        close(torch->to);
    if (torch->from >= 0)
        close(torch->from);
    if (torch->pid > 0) {
        kill(torch->pid, SIGKILL);
        while (waitpid(torch->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(torch);
}
