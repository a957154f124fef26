/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CHOICE_H
#define TEST_CHOICE_H

#include <stdio.h>
#include <string.h>

/* A list of names that an option may narrow. */
struct choice {
    const char *const *names; /* ends with NULL */
    const char *only;         /* "a,b"; NULL: all */
};

static inline int takes(const struct choice *choice, const char *name)
{
    size_t length = strlen(name);
    const char *at = choice->only;

    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return 1;
    return !choice->only;
}

/* -1, with a line for stderr, when the option names what is not in the list. */
static inline int check_names(const char *program, const char *option, const struct choice *choice)
{
    char list[128], *at, *name;

    if (!choice->only)
        return 0;
    snprintf(list, sizeof(list), "%s", choice->only);
    for (name = strtok_r(list, ",", &at); name; name = strtok_r(NULL, ",", &at)) {
        int i = 0;

        while (choice->names[i] && strcmp(choice->names[i], name) != 0)
            i++;
        if (!choice->names[i]) {
            fprintf(stderr, "%s: --%s: there is no '%s'\n", program, option, name);
            return -1;
        }
    }
    return 0;
}

#endif
