/* SPDX-License-Identifier: Apache-2.0 */
/* rondo-run: starts n ranks of a program on this machine, watches over them, and returns the first
 * status that is not 0.  Uses nothing of the library. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/lines.h"
#include "tools/options.h"

enum { EXIT_USAGE = 2, EXIT_OURS = 125, EXIT_NO_EXEC = 126, EXIT_NOT_FOUND = 127, EXIT_LATE = 124 };

struct rank {
    pid_t pid; /* 0: has ended */
    struct line_pipe out[2]; /* standard output and error, with --prefix */
};

struct job {
    struct options options;
    struct rank *ranks;
    int running;
    int root_fd; /* listening socket that rank 0 inherits */
    char root[64], id[33];
    pid_t group;   /* process group of all ranks; rank 0's pid, kept unreaped so that it stays ours */
    sigset_t mask; /* as we found it; the ranks get it back */
    int signal_fd;
    int status;
    int64_t late_ns, term_ns, kill_ns; /* moments to act; 0: never */
    int64_t drop_ns; /* when output that nobody reads is lost, if all ranks have ended; 0: never */
    int drop_status;
    struct line_output output[2]; /* standard output and error */
    char notes[512]; /* what we say ourselves, not in the middle of a rank's line */
    size_t notes_bytes;
};

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- starting ---- */

/* The port is bound here and inherited by rank 0, so that nobody can take it in between. */
static int open_root(struct job *job)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t bytes = sizeof(address);
    uint8_t random[16];

    job->root_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (job->root_fd < 0 || bind(job->root_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(job->root_fd, SOMAXCONN) < 0 ||
        getsockname(job->root_fd, (struct sockaddr *)&address, &bytes) < 0) {
        say("cannot listen on 127.0.0.1: %s", strerror(errno));
        return -1;
    }
    snprintf(job->root, sizeof(job->root), "127.0.0.1:%d", ntohs(address.sin_port));
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        say("getrandom: %s", strerror(errno));
        return -1;
    }
    for (int i = 0; i < 16; i++)
        snprintf(job->id + 2 * i, 3, "%02x", random[i]);
    return 0;
}

static int set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    return setenv(name, text, 1);
}

/* Host h holds ranks div hosts + (h < ranks mod hosts) ranks, one block after the other. */
static int set_host(const struct options *options, int rank)
{
    int host = 0, first = 0, count;
    char text[32];
    int err = 0;

    for (;; host++) {
        count = options->ranks / options->hosts + (host < options->ranks % options->hosts);
        if (rank < first + count)
            break;
        first += count;
    }
    if (options->hosts > 1) {
        snprintf(text, sizeof(text), "host%d", host);
        err |= setenv("RONDO_HOST_ID", text, 1);
    }
    err |= set_number("RONDO_LOCAL_RANK", rank - first);
    err |= set_number("RONDO_LOCAL_SIZE", count);
    return err;
}

static int set_environment(const struct job *job, int rank)
{
    int err = 0;

    err |= set_number("RONDO_RANK", rank);
    err |= set_number("RONDO_SIZE", job->options.ranks);
    err |= setenv("RONDO_ROOT", job->root, 1);
    err |= setenv("RONDO_JOB", job->id, 1);
    err |= set_host(&job->options, rank);
    if (rank)
        return err | unsetenv("RONDO_ROOT_FD");
    err |= set_number("RONDO_ROOT_FD", job->root_fd);
    return err | (fcntl(job->root_fd, F_SETFD, 0) < 0 ? -1 : 0);
}

/* A background process group that reads the terminal is stopped, so nobody gets that; a file or a
 * pipe goes to rank 0. */
static void set_input(int rank)
{
    int fd;

    if (rank == 0 && !isatty(STDIN_FILENO))
        return;
    fd = open("/dev/null", O_RDONLY);
    if (fd >= 0 && fd != STDIN_FILENO) {
        dup2(fd, STDIN_FILENO);
        close(fd);
    }
}

/* In the child; never returns. */
static void become_rank(const struct job *job, int rank, pid_t parent, const int out[2])
{
    int status = EXIT_OURS;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_OURS);
    setpgid(0, job->group);
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 2 && job->options.prefix; i++)
        dup2(out[i], i == 0 ? STDOUT_FILENO : STDERR_FILENO);
    set_input(rank);
    if (set_environment(job, rank)) {
        say("rank %d: cannot set its environment: %s", rank, strerror(errno));
        _exit(status);
    }
    sigprocmask(SIG_SETMASK, &job->mask, NULL);
    execvp(job->options.command[0], job->options.command);
    status = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NO_EXEC;
    say("rank %d: cannot run '%s': %s", rank, job->options.command[0], strerror(errno));
    _exit(status);
}

static int start_rank(struct job *job, int rank)
{
    struct rank *it = &job->ranks[rank];
    int out[2] = { -1, -1 };
    pid_t parent = getpid(), pid;

    for (int i = 0; i < 2 && job->options.prefix; i++) {
        out[i] = line_pipe_open(&it->out[i], &job->output[i], rank);
        if (out[i] < 0)
            goto fail;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        become_rank(job, rank, parent, out);
    if (pid < 0)
        goto fail;
    it->pid = pid;
    job->running++;
    if (!job->group)
        job->group = pid;
    setpgid(pid, job->group); /* the child does the same; whoever comes first */
    for (int i = 0; i < 2; i++)
        if (out[i] >= 0)
            close(out[i]);
    return 0;

fail:
    say("cannot start rank %d: %s", rank, strerror(errno));
    return -1;
}

/* ---- watching ---- */

/* Says it as soon as it fits. */
__attribute__((format(printf, 2, 3))) static void note(struct job *job, const char *format, ...)
{
    size_t room = sizeof(job->notes) - job->notes_bytes;
    char text[128];
    va_list args;
    int n;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    n = snprintf(job->notes + job->notes_bytes, room, "rondo-run: %s\n", text);
    if (n > 0 && (size_t)n < room)
        job->notes_bytes += (size_t)n;
}

static void say_notes(struct job *job)
{
    char text[sizeof(job->notes)];
    size_t bytes = job->notes_bytes;

    memcpy(text, job->notes, bytes);
    job->notes_bytes = 0; /* others may come while these wait */
    line_output_write(&job->output[1], text, bytes);
}

static void signal_all(const struct job *job, int number)
{
    if (job->group)
        kill(-job->group, number);
    for (int r = 0; r < job->options.ranks; r++)
        if (job->ranks[r].pid && getpgid(job->ranks[r].pid) != job->group)
            kill(job->ranks[r].pid, number); /* it has left for a group of its own */
}

static void fail_job(struct job *job, int status)
{
    if (job->status)
        return;
    job->status = status;
    if (!job->term_ns)
        job->term_ns = now_ns() + job->options.grace_ms * 1000000;
}

static void rank_ended(struct job *job, int rank, const siginfo_t *info)
{
    int by_signal = info->si_code != CLD_EXITED;
    int first = !job->status;

    job->ranks[rank].pid = 0;
    job->running--;
    if (!by_signal && info->si_status == 0)
        return;
    fail_job(job, by_signal ? 128 + info->si_status : info->si_status);
    if (!first)
        return;
    note(job, "rank %d ended with %s %d", rank, by_signal ? "signal" : "status", info->si_status);
    if (job->running)
        note(job, "the other ranks have %.3g s to end", (double)job->options.grace_ms / 1000);
}

static void reap(struct job *job)
{
    for (int r = 0; r < job->options.ranks; r++) {
        siginfo_t info = { 0 };
        int flags = WEXITED | WNOHANG | (r == 0 ? WNOWAIT : 0);

        if (job->ranks[r].pid && waitid(P_PID, (id_t)job->ranks[r].pid, &info, flags) == 0 &&
            info.si_pid)
            rank_ended(job, r, &info);
    }
}

static void drop_after(struct job *job, int64_t moment_ns, int status)
{
    if (job->drop_ns && job->drop_ns <= moment_ns)
        return;
    job->drop_ns = moment_ns;
    job->drop_status = status;
}

static void pass_on(struct job *job, int number)
{
    int64_t grace_ns = job->running ? job->options.grace_ms * 1000000 : 0;

    signal_all(job, number);
    if (number != SIGUSR1 && number != SIGUSR2)
        drop_after(job, now_ns() + grace_ns, 128 + number);
}

static void read_signals(struct job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            pass_on(job, (int)info.ssi_signo);
    reap(job);
}

/* Does what is due, and says how many ms there are until something else is; -1: nothing. */
static int act_in_time(struct job *job)
{
    int64_t now = now_ns(), next = INT64_MAX;

    if (job->late_ns && now >= job->late_ns) {
        note(job, "the job is not done after %.3f s (--timeout)", (double)job->options.timeout_ms / 1000);
        job->late_ns = 0;
        job->term_ns = now;
        drop_after(job, now + job->options.grace_ms * 1000000, EXIT_LATE);
        fail_job(job, EXIT_LATE);
    }
    if (job->term_ns && now >= job->term_ns && !job->kill_ns) {
        signal_all(job, SIGTERM);
        signal_all(job, SIGCONT); /* a stopped rank would not see it */
        job->kill_ns = now + job->options.grace_ms * 1000000;
    }
    if (job->kill_ns && now >= job->kill_ns) {
        signal_all(job, SIGKILL);
        job->kill_ns = now + job->options.grace_ms * 1000000;
    }
    if (job->late_ns)
        next = job->late_ns;
    if (job->term_ns && !job->kill_ns && job->term_ns < next)
        next = job->term_ns;
    if (job->kill_ns && job->kill_ns < next)
        next = job->kill_ns;
    if (job->drop_ns > now && job->drop_ns < next)
        next = job->drop_ns;
    return next == INT64_MAX ? -1 : (int)((next - now) / 1000000 + 1);
}

static int is_lost(const struct job *job)
{
    return !job->running && job->drop_ns && now_ns() >= job->drop_ns;
}

/* While nobody reads our output, signals and deadlines are served all the same. */
static int await_output(void *context, int fd)
{
    struct job *job = context;

    for (;;) {
        struct pollfd fds[2] = { { fd, POLLOUT, 0 }, { job->signal_fd, POLLIN, 0 } };
        int wait_ms = act_in_time(job);

        if (poll(fds, 2, is_lost(job) ? 0 : wait_ms) < 0)
            continue;
        if (fds[1].revents)
            read_signals(job);
        if (fds[0].revents)
            return 0;
        if (!is_lost(job))
            continue;
        if (!job->status)
            job->status = job->drop_status;
        return -1;
    }
}

static int watch(struct job *job)
{
    struct pollfd *fds = calloc(1 + 2 * (size_t)job->options.ranks, sizeof(*fds));
    struct line_pipe **pipes = calloc(2 * (size_t)job->options.ranks, sizeof(struct line_pipe *));

    while (fds && pipes && job->running) {
        int wait_ms = act_in_time(job), n = 0;

        if (job->notes_bytes) {
            say_notes(job);
            continue; /* that may have taken time */
        }
        fds[0] = (struct pollfd){ job->signal_fd, POLLIN, 0 };
        for (int i = 0; i < 2 * job->options.ranks; i++) {
            struct line_pipe *it = &job->ranks[i / 2].out[i % 2];

            if (it->fd < 0)
                continue;
            pipes[n++] = it;
            fds[n] = (struct pollfd){ it->fd, POLLIN, 0 };
        }
        if (poll(fds, (nfds_t)n + 1, wait_ms) <= 0)
            continue;
        for (int i = 0; i < n; i++)
            if (fds[i + 1].revents)
                line_pipe_move(pipes[i]);
        if (fds[0].revents)
            read_signals(job);
    }
    free(pipes);
    free(fds);
    return fds && pipes ? 0 : -1;
}

/* What ranks leave behind in their process group ends with them; what they wrote still comes out. */
static void finish(struct job *job)
{
    signal_all(job, SIGKILL);
    while (job->group && waitpid(-job->group, NULL, 0) > 0)
        ;
    job->group = 0; /* is no longer ours */
    job->running = 0;
    for (int r = 0; r < job->options.ranks; r++)
        job->ranks[r].pid = 0;
    say_notes(job);
    for (int i = 0; i < 2 * job->options.ranks; i++)
        line_pipe_close(&job->ranks[i / 2].out[i % 2]);
}

static int prepare_signals(struct job *job)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        sigaddset(&set, forwarded[i]);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* a parent may have left it ignored, and then nobody can be waited for */
    job->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signal_fd < 0 ? -1 : sigprocmask(SIG_BLOCK, &set, &job->mask);
}

int main(int argc, char **argv)
{
    struct job job = { .root_fd = -1 };
    int err = 0;

    for (int i = 0; i < 2; i++)
        job.output[i] = (struct line_output){ i == 0 ? STDOUT_FILENO : STDERR_FILENO, await_output, &job };
    if (options_parse(&job.options, argc, argv) < 0) {
        fprintf(stderr, "Try 'rondo-run --help'.\n");
        return EXIT_USAGE;
    }
    job.ranks = calloc((size_t)job.options.ranks, sizeof(*job.ranks));
    if (!job.ranks)
        return EXIT_OURS;
    for (int i = 0; i < 2 * job.options.ranks; i++)
        job.ranks[i / 2].out[i % 2].fd = -1;
    if (open_root(&job) < 0 || prepare_signals(&job) < 0)
        return EXIT_OURS;
    if (job.options.timeout_ms)
        job.late_ns = now_ns() + job.options.timeout_ms * 1000000;
    for (int r = 0; r < job.options.ranks && !err; r++)
        err = start_rank(&job, r);
    close(job.root_fd);
    if (!err)
        err = watch(&job);
    finish(&job);
    free(job.ranks);
    return err ? EXIT_OURS : job.status;
}
