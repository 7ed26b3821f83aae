// SPDX-License-Identifier: Apache-2.0
// cuCheckpointProcessGetState: of this process, of one without CUDA, and of none.
#include "versions.h"
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

int main() {
    const pid_t plain = fork();
    if (plain == 0) {
        pause();
        _exit(0);
    }
    openDevice();
    auto get_state = get<CUresult(int, int *)>("cuCheckpointProcessGetState", 12080);
    int state = -1;
    REPORTCU(get_state(getpid(), &state));
    printf("state %d\n", state);
    REPORTCU(get_state(getpid(), nullptr));
    REPORTCU(get_state(plain, &state));
    kill(plain, SIGKILL);
    waitpid(plain, nullptr, 0);
    REPORTCU(get_state(plain, &state));
}
