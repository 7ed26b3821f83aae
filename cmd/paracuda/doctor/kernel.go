// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	"github.com/paracuda/paracuda/internal/fix"
)

// userNamespaces checks whether an ordinary user's device process can keep its VM's processes away
// from others' sockets. Those of root and of services need no user namespace for that.
func (h *Host) userNamespaces(context.Context) Finding {
	err := h.UserNamespace()
	if err == nil {
		return good("processes can have one of their own")
	}
	return warn(fmt.Sprintf("workers on the software GPU have none: %v", err),
		fix.UserNamespaces(h.Root))
}

// landlock checks whether a process can give up the right to open files.
func (h *Host) landlock(context.Context) Finding {
	n, err := h.Landlock()
	if err == nil {
		return good(fmt.Sprintf("version %d", n))
	}
	return warn(fmt.Sprintf("workers keep the right to open files: %v", err),
		fix.Landlock(h.Root, err))
}

// seccomp checks whether system calls can be filtered.
func (h *Host) seccomp(context.Context) Finding {
	if err := h.Filter(); err != nil {
		return bad(fmt.Sprintf("no device process starts: its system calls can't be filtered: %v",
			err), fix.Seccomp(h.Root))
	}
	return good("system calls can be filtered")
}
