// SPDX-License-Identifier: Apache-2.0
// Processes of one program that pass on descriptors and words over sockets. They are forked before
// any of them calls CUDA.
#pragma once
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

// Peer is a process at the other end of a socket.
struct Peer {
    int socket;
    pid_t pid;

    // send passes on a block of bytes, and a descriptor unless it is -1.
    template <class T> void send(const T &what, int fd = -1) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
        iovec data = {(void *)&what, sizeof what};
        msghdr m = {};
        m.msg_iov = &data;
        m.msg_iovlen = 1;
        if (fd >= 0) {
            m.msg_control = control;
            m.msg_controllen = sizeof control;
            cmsghdr *c = CMSG_FIRSTHDR(&m);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof fd);
            memcpy(CMSG_DATA(c), &fd, sizeof fd);
        }
        REQUIRE(sendmsg(socket, &m, 0) == ssize_t(sizeof what));
    }

    // receive waits for such a block; the descriptor is -1 where none came.
    template <class T> int receive(T &what) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        iovec data = {&what, sizeof what};
        msghdr m = {};
        m.msg_iov = &data;
        m.msg_iovlen = 1;
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        REQUIRE(recvmsg(socket, &m, 0) == ssize_t(sizeof what));
        int fd = -1;
        if (cmsghdr *c = CMSG_FIRSTHDR(&m)) memcpy(&fd, CMSG_DATA(c), sizeof fd);
        return fd;
    }

    // say and hear are for words that only mark a point of the program.
    void say(char word) { send(word); }
    void hear(char word) {
        char got = 0;
        receive(got);
        REQUIRE(got == word);
    }

    // end waits for the process, which must have ended well.
    void end() {
        int status;
        REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
};

// start forks a process that runs a function with its parent as peer.
inline Peer start(void (*run)(Peer)) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    fflush(stdout);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        run(Peer{ends[1], getppid()});
        fflush(stdout);
        exit(0);
    }
    close(ends[1]);
    return Peer{ends[0], pid};
}
