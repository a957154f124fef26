/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before a rank of hosts.sh: its connections leave from the address HOLD_ADDRESS, and so by the NIC that has
 * it, where the transport leaves that to the kernel, which goes by the address alone that a connection is to. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    const char *text = getenv("HOLD_ADDRESS");
    struct sockaddr_in from = { .sin_family = AF_INET };

    if (text && to->sa_family == AF_INET && inet_pton(AF_INET, text, &from.sin_addr) == 1)
        (void)bind(fd, (struct sockaddr *)&from, sizeof(from)); /* one that is bound stays so */
    return (int)syscall(SYS_connect, fd, to, bytes);
}
