// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/internal/patience"
)

// target is the device process that is attacked, as others on its host see it.
type target struct {
	socket string
	pid    int    // the device process, as it was when the attacks began
	began  string // when that process began: another one may get its number
	first  int    // its keeper, if it has one
}

// findTarget waits until a device process listens at a socket.
func findTarget(socket string) (*target, error) {
	c, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	pid, err := peer(c)
	if err != nil {
		return nil, fmt.Errorf("ask who listens at %s: %w", socket, err)
	}
	t := &target{socket: socket, pid: pid, began: beginning(pid), first: pid}
	if t.began == "" {
		return nil, fmt.Errorf("process %d, which listens at %s, has ended", pid, socket)
	}
	if parent := parentOf(pid); roleOf(parent) == "device" {
		t.first = parent
	}
	return t, nil
}

// peer is the process that listens at the other end.
func peer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var who *unix.Ucred
		if who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED); failed == nil {
			pid = int(who.Pid)
		}
	})
	return pid, errors.Join(err, failed)
}

// dial connects to a socket as soon as somebody listens there.
func dial(socket string) (*net.UnixConn, error) {
	for wait := patience.Of(starts); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err == nil || wait.Over() {
			return c, err
		}
	}
}

// status are the fields of a process's stat from its state on. nil: it has ended.
func status(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := bytes.Cut(text, []byte(") ")) // its name ends there
	fields := strings.Fields(string(rest))
	if err != nil || !found || len(fields) < 20 || strings.Contains("ZX", fields[0]) {
		return nil
	}
	return fields
}

// beginning says when a process began. "": it has ended.
func beginning(pid int) string {
	if fields := status(pid); fields != nil {
		return fields[19]
	}
	return ""
}

func parentOf(pid int) (parent int) {
	if fields := status(pid); fields != nil {
		_, _ = fmt.Sscan(fields[1], &parent)
	}
	return parent
}

// roleOf is the command of the host's program that a process executes.
func roleOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if words := strings.Split(string(text), "\x00"); len(words) > 1 {
		return words[1]
	}
	return ""
}

// alive says whether the device process is still the one that it was.
func (t *target) alive() bool { return beginning(t.pid) == t.began }

// files counts the descriptors of the device's processes.
func (t *target) files() (n int) {
	for _, pid := range leaks.Family(t.first) {
		n += descriptors(pid)
	}
	return n
}

func descriptors(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list)
}

// resident is the private memory of the device's processes, in bytes, and the number of descriptors
// of the device process and its keeper.
func (t *target) resident() (bytes uint64, files int) {
	for _, pid := range leaks.Family(t.first) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		var size, pages, shared uint64
		_, _ = fmt.Sscan(string(b), &size, &pages, &shared)
		bytes += (pages - shared) * 4096
	}
	return bytes, t.own()
}

// own is the number of descriptors of the device process and its keeper.
func (t *target) own() (n int) {
	if n = descriptors(t.pid); t.first != t.pid {
		n += descriptors(t.first)
	}
	return n
}

// workers are the device's workers.
func (t *target) workers() (pids []int) {
	for _, pid := range leaks.Family(t.first) {
		if roleOf(pid) == "worker" {
			pids = append(pids, pid)
		}
	}
	return pids
}
