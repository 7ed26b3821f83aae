// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/internal/fix"
)

// userNamespaces looks whether a device process of an ordinary user's can keep its VM's processes
// apart from others' sockets. Those of root and of services don't need that.
func (h *Host) userNamespaces(context.Context) Finding {
	err := h.UserNamespace()
	if err == nil {
		return good("processes can have one of their own")
	}
	return warn(fmt.Sprintf("workers on the software GPU have none: %v", err),
		fix.UserNamespaces(h.Root))
}

// landlock looks whether the kernel lets a process give its files up.
func (h *Host) landlock(context.Context) Finding {
	if n := h.Landlock(); n > 0 {
		return good(fmt.Sprintf("version %d", n))
	}
	if security := h.word(h.path("/sys/kernel/security/lsm")); security != "" {
		return warn("not active: workers keep the right to open files",
			"add lsm=landlock,"+security+" to the kernel's command line")
	}
	return warn("the kernel has none: workers keep the right to open files", fix.Landlock)
}

// seccomp looks whether the kernel can end a process for a system call.
func (h *Host) seccomp(context.Context) Finding {
	actions := h.word(h.path("/proc/sys/kernel/seccomp/actions_avail"))
	if strings.Contains(actions, "kill_process") {
		return good("system calls can be filtered")
	}
	return bad("system calls can't be filtered: workers on the software GPU don't start",
		fix.Seccomp)
}
