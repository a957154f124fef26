/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SOAK_SAMPLE_H
#define TEST_SOAK_SAMPLE_H

/* What a process holds at one moment, as the kernel says it. */
struct sample {
    long rss_kib;    /* pages in memory, those of files and shared memory included */
    long pss_kib;    /* the same, a page that n processes have in memory as 1/n of it */
    long anon_kib;   /* of that, pages of private memory */
    long fds;        /* open descriptors */
    long threads;
    long maps;       /* mappings of any kind */
    long shared_maps; /* of those, the ones of shared memory: memfd, /dev/shm, System V */
    long shm_kib;    /* that files of shared memory hold which this process has open */
    long pinned_kib; /* locked, or pinned by a device */
    long dev_shm;    /* names in /dev/shm */
};

/* What may not differ at all between two samples, by name; and the value of each. */
enum { SAMPLE_EXACT = 6 };
extern const char *const sample_exact_names[SAMPLE_EXACT];
long sample_exact(const struct sample *sample, int i);

/* Gives this process, and those that it forks, a /dev/shm of their own, so that nobody else's names are
 * counted there.  Returns whether that is allowed here. */
int sample_alone(void);

/* Exits when /proc cannot be read. */
void sample_take(struct sample *sample);

#endif
